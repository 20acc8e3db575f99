"""Names of files and folders from labels: whatever a label holds, every system takes the name."""

import re
import unicodedata

#: Bytes of a name: systems take 255, and something may have to be added.
LONGEST = 120
#: Names that belong to devices on Windows, with any ending.
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(\.|$)", re.IGNORECASE)
_FORBIDDEN = frozenset('/\\:*?"<>|')


def safe_name(text: str, longest: int = LONGEST) -> str:
    """A name for a file or folder that reads like the text.

    Parameters
    ----------
    text : str
    longest : int
        Bytes.

    Examples
    --------
    >>> safe_name("tuti-D"), safe_name("song/call?"), safe_name("../.."), safe_name("nul.wav"), safe_name(" ")
    ('tuti-D', 'song_call_', '_.._', '_nul.wav', '_')
    """
    plain = unicodedata.normalize("NFC", text)
    name = "".join("_" if letter in _FORBIDDEN or _unseen(letter) else letter for letter in plain).strip()
    if name.startswith(".") or _DEVICES.match(name):
        name = f"_{name}"
    # Windows drops dots and spaces at the end
    return _cut(name, longest).rstrip(". ") or "_"


class Names:
    """Hands out names, each once: also where capitals make no difference.

    Examples
    --------
    >>> names = Names()
    >>> names.new("Song"), names.new("song"), names.new("song.wav"), names.new("SONG")
    ('Song', 'song_2', 'song.wav', 'SONG_3')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, name: str, ending: str = "") -> str:
        """The name, with a number before its ending if it is taken."""
        wanted, number = f"{name}{ending}", 1
        while _key(wanted) in self._taken:
            number += 1
            wanted = f"{name}_{number}{ending}"
        self._taken.add(_key(wanted))
        return wanted


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


def _unseen(letter: str) -> bool:
    """Control characters, halves of characters, line breaks, characters that only change direction."""
    category = unicodedata.category(letter)
    return category.startswith("C") or category in ("Zl", "Zp")


def _cut(name: str, longest: int) -> str:
    return name.encode("utf-8")[:longest].decode("utf-8", errors="ignore")
