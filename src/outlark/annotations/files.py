"""Annotation files on disk: text in any encoding, atomic writes, and a file while it is read (`Reading`)."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from outlark.errors import AnnotationError, OutlarkError
from outlark.files.io import NOT_REGULAR, is_endless, opened_aside, starts_a_model
from outlark.plain_text import first_bytes

#: A larger file is a mistake, or a task for a database.
LARGEST = 2**30
_HEAD = 2**16


@dataclass
class Reading:
    """A file while it is read: what its reader has to know, and what it says about the file.

    Attributes
    ----------
    path : Path
    label_column : str, int or None
        Of the labels, if somebody chose one.
    about : mapping
        What the file, or one beside it, says about its origin.
    ours : bool
        Whether a file beside it says that outlark wrote it in this format.
    remarks : list of str
    refused : list of str
        Rows that cannot be read: where, and why. They do not cost the others.
    """

    path: Path
    label_column: str | int | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    ours: bool = False
    remarks: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def refuse(self, where: str, why: object) -> None:
        """Leave out a row, and say so."""
        self.refused.append(f"{self.path}, {where}: {why}")

    def text(self) -> str:
        """The text of the file."""
        return read_text(self.path, self.remarks)


def needed(module: str, extra: str) -> Any:
    """A module of an optional package, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise AnnotationError(
            f'this format needs the package {package} ({error}); install it with: pip install "outlark[{extra}]"'
        ) from None


def read_bytes(path: Path) -> bytes:
    """The content of a file that is not too large."""
    with about_file(path, "read", "check that it exists and that you may read it"):
        if path.is_dir():
            raise AnnotationError(f"{path} is a folder; give the path of one annotation file")
        if is_endless(path):
            raise AnnotationError(f"{path} {NOT_REGULAR}")
        size = path.stat().st_size
        if size > LARGEST:
            raise AnnotationError(
                f"{path} has {size} bytes, too many for an annotation file; is it a recording? Otherwise split it"
            )
        return path.read_bytes()


def read_text(path: Path, remarks: list[str]) -> str:
    """The text of a file: UTF-8 or UTF-16, with or without byte order mark, else Windows-1252, with a remark."""
    blob = read_bytes(path)
    encoding = _encoding(blob)
    if encoding is None:
        if starts_a_model(blob, len(blob)):
            raise AnnotationError(f"{path} is a model; give an annotation file")
        raise AnnotationError(
            f"{path} is not a text file: it begins with {first_bytes(blob)}; give an annotation file, not a recording"
        )
    try:
        text = blob.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            raise AnnotationError(
                f"{path} begins like {encoding} text but is not ({error}); save it as UTF-8"
            ) from None
        text = blob.decode("cp1252", errors="replace")
        remarks.append("not UTF-8; read as Windows-1252 (Latin-1)")
    zero = text.find("\0")
    if zero >= 0:
        line = text.count("\n", 0, zero) + 1
        raise AnnotationError(f"{path}, line {line}: a zero byte; the file is damaged, get another copy")
    return text


def _encoding(blob: bytes) -> str | None:
    """None for binary content."""
    head = blob[:_HEAD]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" not in head:
        return "utf-8-sig"
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if even == 0 and odd > 0.7 * half:
        return "utf-16-le"
    if odd == 0 and even > 0.7 * half:
        return "utf-16-be"
    # text damaged by a power cut, say, has complete lines before its zeros
    return "utf-8-sig" if re.match(rb"[^\0\r\n]*[\r\n]", head) else None


def encoded(text: str) -> bytes:
    """UTF-8; bytes of file names that are not UTF-8 are escaped."""
    return text.encode("utf-8", errors="backslashreplace")


def write_bytes(path: Path, blob: bytes) -> None:
    """Write a file in one step; see `written`."""
    with written(path) as file:
        file.write(blob)


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that replaces `path` at the end, completely or not at all."""
    target = Path(os.path.realpath(path))
    with about_file(path, "written", "free some space, or choose an existing folder that you may write to"):
        if target.is_dir():
            raise AnnotationError(f"{path} is a folder; give the name of a file in it")
        with opened_aside(target) as file:
            yield file


@contextmanager
def about_file(path: Path, done: str, remedy: str) -> Iterator[None]:
    """Turns errors of the operating system into AnnotationErrors that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        if done == "read":
            raise AnnotationError(f"{path} does not exist; check the name") from error
        raise AnnotationError(f"{path} cannot be {done}: {path.parent} does not exist; check the name") from error
    except OSError as error:
        raise AnnotationError(f"{path} cannot be {done} ({error.strerror or error}); {remedy}") from error
    except ValueError as error:
        if isinstance(error, OutlarkError):
            raise
        raise AnnotationError(f"{str(path)!r} cannot be {done} ({error}); choose another name") from error
