"""What is in a file, whatever it is: a model, scores, a recording or a table. It is told by its content."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from outlark.annotations import FORMATS, Table, read_table
from outlark.annotations.read import SUFFIXES
from outlark.audio.sound_files import SoundFiles
from outlark.commands.inspect.model_content import model_content
from outlark.commands.inspect.sound_content import sound_content
from outlark.errors import AnnotationError, AudioError, InputError, OutlarkError
from outlark.files.places import NOT_REGULAR, is_endless


def content_of(
    path: str | os.PathLike[str], sounds: SoundFiles | None = None, *, label_column: str | int | None = None
) -> dict[str, Any]:
    """What is in a file.

    Parameters
    ----------
    path : path of the file
    sounds : SoundFiles, optional
        Finds the recordings of a table; by default beside it.
    label_column : str or int, optional
        Of a table, as for `read_table`.

    Returns
    -------
    dict
        JSON values. "kind" is "model", "scores", "recording" or "table".

    Raises
    ------
    OutlarkError
        For what is none of these; the message says what was tried.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("0.5\\t1.0\\tsong\\n2.0\\t2.5\\tsong\\n")
    ...     found = content_of(f"{folder}/a.txt")
    >>> found["kind"], found["format"], found["labels"], found["recordings"]
    ('table', 'audacity', {'song': 2}, [{'name': None, 'marks': 2, 'path': None}])
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give files: models, recordings or tables")
    if is_endless(path):
        raise InputError(f"{path} {NOT_REGULAR}")
    try:
        with path.open("rb") as file:
            head = file.read(9)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); check the path, and that you may read it"
        ) from None
    # safetensors: the length of a header, and then the header, which is a JSON object
    if head[8:] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size:
        return model_content(path)
    if not head:
        raise InputError(f"{path} is empty (0 bytes); copy or record it again")
    return _sound_or_table(path, sounds or SoundFiles(), label_column)


def _sound_or_table(path: Path, sounds: SoundFiles, label_column: str | int | None) -> dict[str, Any]:
    ways = [
        lambda: sound_content(path),
        lambda: table_content(read_table(path, label_column=label_column), sounds),
    ]
    # text in UTF-16 begins as an MP3 may begin
    by_name = path.name.lower().endswith(SUFFIXES)
    errors: list[OutlarkError] = []
    for way in reversed(ways) if by_name else ways:
        try:
            return way()
        except (AudioError, AnnotationError) as error:
            errors.append(error)
    raise errors[0] if by_name else InputError(f"{path} is nothing that outlark knows. {errors[0]}. {errors[1]}")


def table_content(table: Table, sounds: SoundFiles) -> dict[str, Any]:
    """What is in a table, and which of its recordings are there."""
    marks = table.marks
    counts = Counter(mark.recording for mark in marks)
    return {
        "kind": "table",
        "path": str(table.path),
        "size_bytes": table.path.stat().st_size,
        "format": table.format,
        "what": FORMATS[table.format].what,
        "marks": len(marks),
        "labels": dict(sorted(Counter(mark.label for mark in marks if mark.label is not None).items())),
        "blank": sum(mark.label is None for mark in marks),
        "verdicts": dict(sorted(Counter(mark.verdict for mark in marks if mark.verdict is not None).items())),
        "points": sum(mark.start_s == mark.end_s for mark in marks),
        "start_s": min((mark.start_s for mark in marks), default=None),
        "end_s": max((mark.end_s for mark in marks), default=None),
        "recordings": [
            {"name": name, "marks": n, "path": _found(name, table.path, sounds)}
            for name, n in (counts or {None: 0}).items()
        ],
        "remarks": list(table.remarks),
        "about": dict(table.about),
    }


def _found(name: str | None, table: Path, sounds: SoundFiles) -> str | None:
    try:
        return str(sounds.of_table(table) if name is None else sounds.named(name, table))
    except AnnotationError:
        return None
