"""What `outlark review` is given, as a project: folders, recordings, the results of a run, or the demonstration."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outlark.batch.journal import DONE, NAME, Journal
from outlark.batch.sources import Source, find
from outlark.batch.task import WORKSHOP
from outlark.errors import InputError, OutlarkError
from outlark.files.cache import cache_folder
from outlark.review.demo import make_demo
from outlark.review.found import import_found
from outlark.review.project import FOLDER, Project


@dataclass(frozen=True)
class Opened:
    """A project that is ready.

    Attributes
    ----------
    project : Project
    title : str
    problems : list of dict
        Recordings that cannot be opened: "name" and "message".
    """

    project: Project
    title: str
    problems: list[dict[str, str]]


def open_project(
    paths: Sequence[str | Path],
    project: Path | None = None,
    model: Path | None = None,
    audio: Sequence[Path] = (),
) -> Opened:
    """The project of these paths, with its recordings; of the demonstration if there are none.

    Parameters
    ----------
    paths : sequence of paths
        Recordings, folders of them, or one output folder of `outlark detect`.
    project : Path, optional
        Where the project is kept; a folder "outlark-review" beside the recordings if left out.
    model : Path, optional
        For results of a run: the model that found them, so that scores can be seen and thresholds moved.
    audio : sequence of paths
        Folders that hold the recordings that this model was trained on.

    Raises
    ------
    InputError
        When there are no recordings, or the folder cannot be written to.
    """
    if not paths:
        folder = (cache_folder() / "demo") if project is None else project
        make_demo(folder)
        return _opened("Demonstration", folder / FOLDER, [(path, path.name) for path in make_demo(folder)])
    found = [Path(path) for path in paths if (Path(path) / WORKSHOP / NAME).is_file()]
    if found:
        if len(paths) > 1:
            raise InputError(f"{found[0]} holds the results of a run; review it by itself")
        return _results(found[0], project, model, audio)
    if model is not None:
        raise InputError("a model goes with the results of the run that it has made; give their folder")
    sources = find(paths)
    problems = [{"name": failure.name, "message": failure.message} for failure in sources.failures]
    files = [(_here(source), source.name) for source in sources.files]
    files = [(path, name) for path, name in files if FOLDER not in path.parts]
    base = Path(os.path.commonpath([path.parent for path, _ in files]))
    title = base.name if len(files) != 1 else files[0][1]
    return _opened(title, project or base / FOLDER, files, problems)


def _here(source: Source) -> Path:
    """Its path on this machine."""
    if isinstance(source.path, str):
        raise InputError(f"{source.path} is elsewhere; the review page plays recordings of this machine: copy it")
    return source.path


def _results(folder: Path, project: Path | None, model: Path | None, audio: Sequence[Path]) -> Opened:
    """An output folder of `outlark detect`: its recordings, and what was found in them."""
    entries = Journal(folder / WORKSHOP / NAME).entries
    done = {name: entry for name, entry in entries.items() if entry.get("state") == DONE}
    if not done:
        raise InputError(f"{folder} holds no finished results; run 'outlark detect' again, or review the recordings")
    opened = _opened(folder.name, project or folder / FOLDER, [(Path(e["path"]), name) for name, e in done.items()])
    if opened.project.run() is None:
        opened.problems.extend(import_found(opened.project, folder, done, model, audio))
    return opened


def _opened(
    title: str, folder: Path, files: Sequence[tuple[Path, str]], problems: Sequence[dict[str, str]] = ()
) -> Opened:
    opened, told = Project(folder), list(problems)
    for path, name in files:
        try:
            opened.add(path, name)
        except (OutlarkError, OSError) as error:
            told.append({"name": name, "message": str(error)})
    if not opened.recordings():
        opened.close()
        raise InputError(f"no recording can be opened: {told[0]['message']}" if told else "no recordings given")
    return Opened(opened, title, told)
