"""Files: paths and URLs (s3://, gs://, https:// …, through fsspec), atomic writes, strict JSON, the cache folder."""

import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from outlark.errors import InputError, OutlarkError

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
    except (OSError, OutlarkError):
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


# ------------------------------------------------------------------ atomic writes

#: Whether what is written is flushed to disk at once.
_AT_ONCE = ContextVar("at_once", default=True)


@contextmanager
def flushed_later() -> Iterator[None]:
    """Files written meanwhile are not flushed to disk: someone else does so before they count.

    Each flush takes milliseconds, for which a run over thousands of short recordings would wait.
    """
    before = _AT_ONCE.set(False)
    try:
        yield
    finally:
        _AT_ONCE.reset(before)


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """A temporary path in the folder of `target`, which replaces `target` at the end, in one step.

    After any failure `target` is unchanged, and no temporary file is left.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with written_aside(Path(folder, "a.txt")) as path:
    ...         _ = path.write_text("all of it")
    ...     os.listdir(folder)
    ['a.txt']
    """
    aside = target.parent / f".outlark-{secrets.token_hex(8)}.tmp"
    try:
        yield aside
        os.replace(aside, target)
        if _AT_ONCE.get():
            sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


@contextmanager
def opened_aside(target: Path) -> Iterator[BinaryIO]:
    """The same, open for writing; flushed to disk before it is renamed.

    A link stays a link, and the mode of an existing file stays. An OSError for a folder, a device or a pipe.
    """
    target = Path(os.path.realpath(target))
    if target.is_dir() or is_endless(target):
        raise OSError(None, f"it is {'a folder' if target.is_dir() else 'a device or a pipe'}, not a file", str(target))
    with written_aside(target) as path, open(path, "xb") as file:
        if target.exists():
            os.chmod(path, stat.S_IMODE(target.stat().st_mode))
        yield file
        file.flush()
        if _AT_ONCE.get():
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, so that a renamed file survives a power cut, where the system can."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def sync_folders(folder: Path, outermost: Path) -> None:
    """The same for a folder and its parents up to `outermost`, which may be new, too."""
    for one in (folder, *folder.parents):
        sync_folder(one)
        if one == outermost:
            return


# ------------------------------------------------------------------ strict JSON

#: Nesting of lists and dicts.
MAX_JSON_DEPTH = 50


def dumps(value: Any, what: str) -> str:
    """One line of ASCII, the same for equal values; `what` names the value in errors.

    >>> dumps({"b": 0.1, "a": [None, True]}, "header")
    '{"a":[null,true],"b":0.1}'
    >>> dumps({"tau": {"song": float("nan")}}, "header")
    Traceback (most recent call last):
    outlark.errors.InputError: header.tau.song is nan, which JSON does not have; keep it in an array
    """
    _check(value, what)
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes, what: str) -> dict[str, Any]:
    """The object in `text`; an InputError for anything that `dumps` does not write."""
    try:
        if isinstance(text, bytes):
            text = text.decode()  # json would guess the encoding
        value = json.loads(text, object_pairs_hook=without_doubles)
        _check(value, what)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not strict JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{what} is not a JSON object")
    return value


class RepeatedKeyError(ValueError):
    """A JSON object with a repeated key."""


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `object_pairs_hook` of `json.loads`, which otherwise takes the last of equal keys.

    >>> without_doubles([("label", "song"), ("label", "call")])
    Traceback (most recent call last):
    outlark.files.io.RepeatedKeyError: the key 'label' occurs twice
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RepeatedKeyError(f"the key {key!r:.60} occurs twice")
        found[key] = value
    return found


def _check(value: Any, where: str, depth: int = 0) -> None:
    """Refuse what would not be read back unchanged, naming the key."""
    if depth > MAX_JSON_DEPTH:
        raise InputError(f"{where} is nested more than {MAX_JSON_DEPTH} levels deep; flatten it")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where} is {value!r}, which JSON does not have; keep it in an array")
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise InputError(f"{where} has the key {key!r}; keys must be str")
            _check(entry, f"{where}.{key:.40}", depth + 1)
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            _check(entry, f"{where}[{i}]", depth + 1)
    elif type(value) not in (str, int, float, bool, type(None)):
        raise InputError(f"{where} is of type {type(value).__name__}; use dict, list, str, int, float, bool or None")
