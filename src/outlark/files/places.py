"""Where recordings are: paths of this machine, or URLs that fsspec opens (s3://, gs://, https:// …)."""

import hashlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from outlark.errors import InputError

#: A path, or a URL as text.
Place = str | os.PathLike[str]
#: Bytes that are fetched at once from elsewhere.
FETCHED = 2**22


def is_url(place: Any) -> bool:
    """Whether it is a URL and not a path.

    >>> is_url("s3://bucket/a.wav"), is_url("C:/a.wav"), is_url(Path("a.wav"))
    (True, False, False)
    """
    return isinstance(place, str) and re.match(r"[a-z][a-z0-9+.-]+://", place, re.IGNORECASE) is not None


def as_place(place: Place) -> Path | str:
    """A path as `Path`, a URL as it is."""
    return str(place) if is_url(place) else Path(place)


def name_of(place: Place) -> str:
    """The last part: the name of the file.

    >>> name_of("s3://bucket/night/a.wav"), name_of(Path("b/c.wav"))
    ('a.wav', 'c.wav')
    """
    return str(place).rsplit("/", 1)[-1] if is_url(place) else Path(place).name


@contextmanager
def opened(place: Place) -> Iterator[BinaryIO]:
    """Open for reading, from any position.

    Raises
    ------
    OSError
        Whatever is wrong, also elsewhere.
    """
    if not is_url(place):
        with open(place, "rb") as file:
            yield file
        return
    system, path = file_system(str(place))
    with as_os_errors(place), system.open(path, "rb", block_size=FETCHED) as file:
        yield file


def size_of(place: Place) -> int:
    """Bytes.

    Raises
    ------
    OSError
    """
    if not is_url(place):
        return Path(place).stat().st_size
    system, path = file_system(str(place))
    with as_os_errors(place):
        return int(system.info(path)["size"])


def length_of(file: BinaryIO) -> int:
    """Bytes of a file that is open; it is then where it was."""
    at = file.tell()
    end = file.seek(0, io.SEEK_END)
    file.seek(at)
    return end


def mark_of(url: str) -> dict[str, Any]:
    """By which what is at a URL is known again: its size, and what the store says of its content or its time.

    Raises
    ------
    OSError
    """
    system, path = file_system(url)
    with as_os_errors(url):
        system.invalidate_cache()
        info = system.info(path)
        told = [info.get(key) for key in ("ETag", "etag", "md5Hash", "crc32c", "content_md5", "checksum")]
        when = [info.get(key) for key in ("LastModified", "last_modified", "mtime", "updated", "created")]
    said = str([one for one in told if one] or [one for one in when if one][:1])
    return {"size": int(info["size"]), "mtime_ns": 0, "sha256": hashlib.sha256(said.encode()).hexdigest()}


def file_system(url: str) -> tuple[Any, str]:
    """What fsspec has for a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url}: this kind of URL needs a package that is not there ({error}); fsspec comes with: pip install "
            '"outlark[cluster]", and s3:// also takes s3fs, gs:// gcsfs, az:// adlfs'
        ) from None
    except ValueError as error:
        raise InputError(f"{url}: {error}; give a path, or a URL that fsspec knows") from None


@contextmanager
def as_os_errors(place: Place) -> Iterator[None]:
    """Errors of whatever library is behind a URL, as those of files."""
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:
        raise OSError(None, f"{type(error).__name__}: {error}", str(place)) from error
