"""From the arguments of `outlark review` to a project: recordings, results of a detect run, or the demonstration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlark.batch.journal import DONE, FAILED, NAME, Journal
from outlark.batch.sources import Source, common_folder, find
from outlark.batch.task import WORKSHOP, fingerprint
from outlark.data.demo_recordings import write_sound
from outlark.errors import InputError
from outlark.files.io import cache_folder
from outlark.plain_text import writable
from outlark.review import runs, training
from outlark.review.identity import content
from outlark.review.project import FILE, FOLDER, SHOWN, Project
from outlark.review.results import import_found

#: Recordings of the demonstration.
DEMO = ("demo_20240512_053000.wav", "demo_20240512_061500.wav")


@dataclass(frozen=True)
class Opened:
    """A project, and the recordings that cannot be opened, each with "name" and "message"."""

    project: Project
    title: str
    problems: list[dict[str, str]]


def open_project(
    paths: Sequence[str | Path],
    project: Path | None = None,
    model: Path | None = None,
    audio: Sequence[Path] = (),
) -> Opened:
    """The project for these paths; without paths, the demonstration.

    Paths are recordings, folders of them, or one output folder of `outlark detect`; for the latter, `model` is the
    model that made the results, and `audio` are folders with the recordings that it was trained on. The project is kept
    in `project`, by default a folder "outlark-review" beside the recordings. Its own folder alone opens a project, too.
    """
    kept = Path(paths[0]) if len(paths) == 1 else project if not paths else None
    if kept is not None and (kept / FILE).is_file():
        return _opened(kept.name, kept, [])
    if not paths:
        folder = (cache_folder() / "demo") if project is None else project
        return _opened("Demonstration", folder / FOLDER, [(path, path.name) for path in make_demo(folder)])
    found = [Path(path) for path in paths if (Path(path) / WORKSHOP / NAME).is_file()]
    if found:
        if len(paths) > 1:
            raise InputError(f"{found[0]} holds the results of a run; review it on its own")
        return _results(found[0], project, model, audio)
    if model is not None:
        raise InputError("--model goes with the results of a detect run; give their folder")
    sources = find(paths)
    problems = [{"name": failure.name, "message": failure.message} for failure in sources.failures]
    files = [(_here(source), source.name) for source in sources.files]
    files = [(path, name) for path, name in files if FOLDER not in path.parts]
    base = common_folder([Path(path) for path in paths])
    title = base.name if len(files) != 1 else files[0][1]
    return _opened(title, project or base / FOLDER, files, problems)


def _here(source: Source) -> Path:
    if isinstance(source.path, str):
        raise InputError(f"{source.path} is not on this computer; the review page plays local files: copy it first")
    return source.path


def _results(folder: Path, project: Path | None, model: Path | None, audio: Sequence[Path]) -> Opened:
    """An output folder of `outlark detect`: recordings and detections."""
    entries = Journal(folder / WORKSHOP / NAME).entries
    done = {name: _here_now(entry, folder) for name, entry in entries.items() if entry.get("state") == DONE}
    if not done:
        raise InputError(f"{folder} holds no finished results; run 'outlark detect' again, or review the recordings")
    files = [(Path(entry["path"]), name) for name, entry in done.items()]
    opened = _opened(folder.name, project or folder / FOLDER, files)
    opened.problems.extend(
        {"name": name, "message": f"detect could not search it: {entry.get('message', '')}"}
        for name, entry in entries.items()
        if entry.get("state") == FAILED
    )
    opened.problems.extend(import_found(opened.project, folder, done, model, audio))
    return opened


def _here_now(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A line of the journal, with the path where its recording is now."""
    return {**entry, "path": str(_moved_along(Path(entry["path"]), folder, entry["file"]))}


def _moved_along(path: Path, folder: Path, print: Mapping[str, Any]) -> Path:
    """Where a recording of a run is now, if it was moved together with the results; else where it was."""
    if path.exists():
        return path
    ends = [Path(*path.parts[-n:]) for n in range(1, len(path.parts))]
    near = (above / end for above in folder.absolute().parents for end in reversed(ends))
    found = (one for one in near if one.is_file() and content(fingerprint(one) or print) == content(print))
    return next(found, path)


def _opened(
    title: str, folder: Path, files: Sequence[tuple[Path, str]], problems: Sequence[dict[str, str]] = ()
) -> Opened:
    opened = Project(folder)
    runs.sweep(opened)
    found = [*problems, *opened.remarks, *opened.register(files)]
    if not opened.recordings():
        opened.close()
        raise InputError(f"no recording can be opened: {found[0]['message']}" if found else "no recordings given")
    run = opened.run()
    if run is not None and run["state"] == SHOWN and run["model"] is not None:
        training.afterwards(opened, run["id"])  # what a killed process did not get to
    said = [{key: writable(text) for key, text in problem.items()} for problem in found]
    return Opened(opened, writable(title), said)


def make_demo(folder: Path) -> list[Path]:
    """The recordings of the demonstration, written if they are missing."""
    paths = [folder / name for name in DEMO]
    for seed, path in enumerate(paths):
        write_sound(path, seed)
    return paths
