"""Text of others that may be shown: nothing in it moves the cursor, turns letters round or cannot be written.

Labels and file names may hold anything, also sequences that a terminal takes for commands (ESC, CSI), marks that turn
the direction of writing, and halves of characters that stand for bytes which are no UTF-8.
"""

import re

#: Control characters but tab and line feed; marks and overrides of direction; separators of lines; lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
#: How a byte that is no UTF-8 is spelt, such as \udce9.
_BYTE = re.compile(r"\\u(dc[89a-f][0-9a-f])")


def visible(text: str) -> str:
    r"""The text with such characters spelt out.

    >>> print(visible("so\x1b[31mng \u202egnos caf\udce9 \tMönchsgrasmücke"))
    so\x1b[31mng \u202egnos caf\udce9   Mönchsgrasmücke
    """
    return _UNSAFE.sub(lambda found: _spelt(found[0]), text)


def visible_json(text: str) -> str:
    r"""JSON that says the same, with such characters as JSON spells them.

    >>> print(visible_json('{"label": "so\x9bng"}'))
    {"label": "so\u009bng"}
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def writable(text: str) -> str:
    r"""Text that can be UTF-8: bytes of names that are none are spelt out.

    >>> print(writable("caf\udce9"))
    caf\udce9
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def as_named(text: str) -> str:
    r"""The name of the file that a table calls so: what `writable` made of its bytes becomes these bytes again.

    >>> as_named(writable("caf\udce9.wav")) == "caf\udce9.wav"
    True
    """
    return _BYTE.sub(lambda found: chr(int(found[1], 16)), text)


def number_of(n: int, what: str) -> str:
    """So many of something, in words.

    >>> number_of(1, "class"), number_of(2, "class"), number_of(0, "note")
    ('1 class', '2 classes', '0 notes')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}{'es' if what.endswith('s') else 's'}"


def _spelt(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
