"""Where an annotation file comes from: made by a model of outlark, or by somebody; and how a written file says so."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outlark.annotations.annotation import About, Annotation, Table
from outlark.annotations.audacity import ends_in_score
from outlark.annotations.files import SIDE_SUFFIX, encoded, read_bytes, side_path, write_bytes
from outlark.annotations.formats import FORMATS
from outlark.audio.sound_files import is_sound
from outlark.errors import AnnotationError, InputError
from outlark.files.strict_json import dumps, loads

#: About all files of a run that a folder holds: one of these is enough.
FOLDER_ABOUT = f"outlark{SIDE_SUFFIX}"
#: Repeats the rows of all files of a run (`outlark.batch.report`).
COMBINED = "combined.csv"
#: Marks the output folder of a run (`outlark.batch.journal`).
JOURNAL = Path(".outlark", "journal.jsonl")
#: Starts the reason of a row that somebody annotated in the review page.
BY_HAND = "by hand"


def is_named_by_a_run(name: str) -> bool:
    """Whether a run names its files like this: the whole name of the recording, then that of the format.

    >>> [is_named_by_a_run(name) for name in ("a.wav.labels.txt", "combined.csv", "a.labels.txt")]
    [True, True, False]
    """
    endings = [format.suffix for format in FORMATS.values() if format.writes]
    return name == COMBINED or any(name.endswith(ending) and is_sound(name[: -len(ending)]) for ending in endings)


# ------------------------------------------------------- made by a model or by a person


def is_made_by_a_model(table: Table) -> bool:
    """Whether a model of outlark made the annotations of a file, or some of them.

    Such a file is no truth and no example until somebody has checked it. Its rows tell; else what it says about its
    origin, the output folder of a run that it is in, or the scores in Audacity labels.
    """
    if any(_is_detection(annotation) for annotation in table.annotations):
        return True
    if any(annotation.reason.startswith(BY_HAND) for annotation in table.annotations):
        return False
    if table.about.get("model_sha256") is not None:
        return True
    if is_named_by_a_run(table.path.name) and _is_in_a_run(table.path):
        return True
    labels = [annotation.label for annotation in table.annotations]
    return table.format == "audacity" and not table.about and bool(labels) and all(map(ends_in_score, labels))


def passed_over(tables: Sequence[Table], folder: Path) -> str:
    """A remark on files of a folder that do not count because a model made them."""
    names = [table.path.relative_to(folder).as_posix() for table in tables]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{folder}: {names[0]}{more} passed over: made by a model of outlark, not by a person"


def _is_detection(annotation: Annotation) -> bool:
    scored = annotation.verdict is not None and annotation.score is not None
    return scored and bool(annotation.reason) and not annotation.reason.startswith(BY_HAND)


def _is_in_a_run(path: Path) -> bool:
    return any((folder / JOURNAL).is_file() for folder in path.absolute().parents)


# ------------------------------------------------------------- the file about files


def write_about(path: Path, about: About, format: str) -> None:
    """Say how an annotation file came about: in the file about its folder, or beside it.

    Files of a run share the one in their folder. A file with a name of its own, or of another run, has its own.
    """
    run = {key: value for key, value in about.as_dict().items() if key != "recording"}
    folder = path.with_name(FOLDER_ABOUT)
    if is_named_by_a_run(path.name) and _read(folder, []) in ({}, run):
        if not folder.exists():
            write_bytes(folder, encoded(_text(run)))
        side_path(path).unlink(missing_ok=True)
    else:
        write_bytes(side_path(path), encoded(_text({"format": format, **about.as_dict()})))


def read_about(path: Path, format: str, remarks: list[str]) -> dict[str, Any]:
    """What is said about a file beside it or in its folder; empty if nothing, with a remark if it cannot be read."""
    own = _read(side_path(path), remarks)
    if own or not is_named_by_a_run(path.name):
        return own
    of_folder = _read(path.with_name(FOLDER_ABOUT), remarks)
    return {"format": format, **of_folder} if of_folder else {}


def _text(content: Mapping[str, Any]) -> str:
    dumps(dict(content), "about")
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _read(path: Path, remarks: list[str]) -> dict[str, Any]:
    try:
        return loads(read_bytes(path), path.name) if path.exists() else {}
    except (OSError, AnnotationError, InputError) as error:
        remarks.append(f"{path.name} beside it cannot be read ({error})")
        return {}
