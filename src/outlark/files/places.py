"""Places of files: paths on this machine, URLs that fsspec opens (s3://, gs://, https:// …), the cache folder."""

import hashlib
import io
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from outlark.errors import InputError

#: A path, or a URL as text.
Place = str | os.PathLike[str]
#: Bytes fetched at once from a URL.
FETCHED = 2**22
#: The error for a path that is not a regular file.
NOT_REGULAR = "is a device or a pipe, not a file; copy what it gives into a file first"

#: The first bytes of sound files, to recognise one given in place of something else.
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


def is_url(place: Any) -> bool:
    """Whether it is a URL and not a path.

    >>> is_url("s3://bucket/a.wav"), is_url("C:/a.wav"), is_url(Path("a.wav"))
    (True, False, False)
    """
    return isinstance(place, str) and re.match(r"[a-z][a-z0-9+.-]+://", place, re.IGNORECASE) is not None


def as_place(place: Place) -> Path | str:
    """A path as `Path`, a URL as text."""
    return str(place) if is_url(place) else Path(place)


def name_of(place: Place) -> str:
    """The file name.

    >>> name_of("s3://bucket/night/a.wav"), name_of(Path("b/c.wav"))
    ('a.wav', 'c.wav')
    """
    return str(place).rsplit("/", 1)[-1] if is_url(place) else Path(place).name


@contextmanager
def opened(place: Place) -> Iterator[BinaryIO]:
    """Open for reading, with seeking; any failure is an OSError."""
    if not is_url(place):
        with open(place, "rb") as file:
            yield file
        return
    system, path = file_system(str(place))
    with as_os_errors(place), system.open(path, "rb", block_size=FETCHED) as file:
        yield file


def size_of(place: Place) -> int:
    """Size in bytes."""
    if not is_url(place):
        return Path(place).stat().st_size
    system, path = file_system(str(place))
    with as_os_errors(place):
        return int(system.info(path)["size"])


def length_of(file: BinaryIO) -> int:
    """Size of an open file in bytes; its position is kept."""
    at = file.tell()
    end = file.seek(0, io.SEEK_END)
    file.seek(at)
    return end


def mark_of(url: str) -> dict[str, Any]:
    """The fingerprint of a file at a URL: its size, and the checksum or time that the store gives."""
    system, path = file_system(url)
    with as_os_errors(url):
        system.invalidate_cache()
        info = system.info(path)
        checksums = [info.get(key) for key in ("ETag", "etag", "md5Hash", "crc32c", "content_md5", "checksum")]
        times = [info.get(key) for key in ("LastModified", "last_modified", "mtime", "updated", "created")]
    stated = str([one for one in checksums if one] or [one for one in times if one][:1])
    return {"size": int(info["size"]), "mtime_ns": 0, "sha256": hashlib.sha256(stated.encode()).hexdigest()}


def file_system(url: str) -> tuple[Any, str]:
    """The file system of fsspec for a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url}: this kind of URL needs a package that is not installed ({error}); fsspec comes with: pip install "
            '"outlark[cluster]", and s3:// also takes s3fs, gs:// gcsfs, az:// adlfs'
        ) from None
    except ValueError as error:
        raise InputError(f"{url}: {error}; give a path, or a URL that fsspec knows") from None


@contextmanager
def as_os_errors(place: Place) -> Iterator[None]:
    """Turns errors of the library behind a URL into OSErrors."""
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:
        raise OSError(None, f"{type(error).__name__}: {error}", str(place)) from error


def is_endless(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device, a pipe or a socket: reading it may wait forever, or never end.

    >>> is_endless(os.devnull), is_endless("."), is_endless("no such file")
    (True, False, False)
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def cache_folder() -> Path:
    """Where outlark keeps what it can fetch or compute again: OUTLARK_CACHE, or the usual place; it may not exist."""
    if given := os.environ.get("OUTLARK_CACHE"):
        return Path(given)
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):  # the standard says to ignore others
        return Path(chosen, "outlark")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local", "outlark", "Cache")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "outlark"


def starts_a_model(start: bytes, size: int) -> bool:
    """Whether a file of this size that starts like this is a model: safetensors, whose header is a JSON object.

    >>> starts_a_model(b"\\x02\\0\\0\\0\\0\\0\\0\\0{}", 10), starts_a_model(b"RIFF....{", 10)
    (True, False)
    """
    return start[8:9] == b"{" and int.from_bytes(start[:8], "little") < size
