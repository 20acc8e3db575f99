"""What a path leads to, before it is read. A pipe waits for whoever writes to it, and /dev/zero never stops."""

import os
import stat

#: What is wrong with a path that leads to something else, and what to do.
NOT_REGULAR = "is a device or a pipe, not a file; copy what it gives into a file first"

#: How sound files begin, by which one is known that is given for something else.
SOUND_STARTS = {
    b"RIFF": "WAV",
    b"RF64": "WAV",
    b"BW64": "WAV",
    b"riff": "Wave64",
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"FORM": "AIFF",
    b"caff": "CAF",
    b".snd": "AU",
    b"ID3": "MP3",
}


def is_endless(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to a device, a pipe or a socket, which must not be opened to read a file.

    What is not there, or cannot be looked at, is left to whoever opens it.

    >>> is_endless(os.devnull), is_endless("."), is_endless("no such file")
    (True, False, False)
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
