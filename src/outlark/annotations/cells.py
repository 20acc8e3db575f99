"""Single cells: numbers and text, in and out."""

import re

#: Seconds. A nanosecond tells the samples of any recording apart (2.6 µs at 384 kHz).
TIME_DIGITS = 9
SCORE_DIGITS = 6
FREQUENCY_DIGITS = 3
#: A spreadsheet takes text that begins like this for a formula; an apostrophe before it says that it is text.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", flags=re.ASCII)
_COMMA = re.compile(r"([+-]?\d+),(\d+)", flags=re.ASCII)
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')
#: What stands for "no value" where a number is optional.
NOTHING = frozenset({"", "na", "n/a", "nan", "none", "null", "-"})


def decimal(value: float | None, digits: int) -> str:
    """A number with a point, no more digits than it needs, and never in powers of ten; None is blank.

    >>> decimal(0.3, 9), decimal(2, 9), decimal(154.3877927674, 9), decimal(-1e-12, 9), decimal(None, 9)
    ('0.3', '2.0', '154.387792767', '0.0', '')
    """
    if value is None:
        return ""
    text = f"{value:.{digits}f}".rstrip("0")
    text += "0" if text.endswith(".") else ""
    return "0.0" if text == "-0.0" else text


def number(cell: str) -> float:
    """The number in a cell, also with a decimal comma where it can be nothing else.

    >>> number(" 12.5 "), number("3"), number("0,500"), number("1,25")
    (12.5, 3.0, 0.5, 1.25)
    >>> number("1,500")
    Traceback (most recent call last):
    ValueError: '1,500' could be 1.5 or 1500; write it with a point
    """
    text = cell.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    comma = _COMMA.fullmatch(text)
    if comma:
        if len(comma[2]) == 3 and comma[1].lstrip("+-") != "0":
            plain = float(f"{comma[1]}.{comma[2]}")
            raise ValueError(f"{text!r} could be {plain:g} or {comma[1]}{comma[2]}; write it with a point")
        return float(f"{comma[1]}.{comma[2]}")
    raise ValueError(f"{cell!r:.60} is no number" if text else "the cell is blank")


def optional_number(cell: str) -> float | None:
    """The number in a cell that may be blank.

    >>> optional_number("NA"), optional_number("0.5")
    (None, 0.5)
    """
    return None if cell.strip().casefold() in NOTHING else number(cell)


def guarded(text: str) -> str:
    """Text that no spreadsheet takes for a formula.

    >>> guarded("=1+1"), guarded("tuti-D"), guarded("'=")
    ("'=1+1", 'tuti-D', "''=")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(text: str) -> str:
    """What `guarded` was given.

    >>> unguarded("'=1+1"), unguarded("'o"), unguarded(guarded("'-"))
    ('=1+1', "'o", "'-")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def one_line(text: str) -> str:
    r"""Text for a table without quotes: tabs and line breaks become spaces.

    >>> one_line("a\tb\r\n")
    'a b'
    """
    return re.sub(r"[\t\n\r]+", " ", text).strip()


def comma_line(cells: list[str]) -> str:
    r"""A line of a comma-separated table.

    >>> print(comma_line(["a", "b,c", 'a "d" note']), end="")
    a,"b,c","a ""d"" note"
    """
    return ",".join(_quoted(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells) + "\n"


def tab_line(cells: list[str]) -> str:
    r"""A line of a tab-separated table; quotes only where a reader would take the first character for one.

    >>> tab_line(['the "long" song', '"A"']).count('"')
    8
    """
    return "\t".join(_quoted(cell) if cell.startswith('"') else cell for cell in cells) + "\n"


def tab_cells(line: str) -> list[str]:
    r"""The cells of a tab-separated line. Quotes count only where they enclose the whole cell.

    >>> tab_cells('1\t"a ""b"" c"\t"d')
    ['1', 'a "b" c', '"d']
    """
    return [_unquoted(cell) for cell in line.split("\t")]


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _unquoted(cell: str) -> str:
    inner = cell[1:-1]
    whole = len(cell) >= 2 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else cell
