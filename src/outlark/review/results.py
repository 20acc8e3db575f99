"""Results of `outlark detect` as a run of the page, which follows them when `detect` is resumed or repeated."""

import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outlark.annotations import FORMATS, Annotation, read_annotations
from outlark.annotations.formats import WITH_LABELS
from outlark.audio.facts import Facts
from outlark.audio.sound_files import parts_in_common
from outlark.batch.task import file_sha256, sha256_of
from outlark.errors import InputError, OutlarkError
from outlark.review import runs
from outlark.review.identity import content, row_content
from outlark.review.project import SHOWN, Project, Recording, insert_detections
from outlark.review.store import Row
from outlark.segments import SILENCE
from outlark.storage.model_file import load

#: Finished recordings by name: their lines in the journal.
Done = Mapping[str, Mapping[str, Any]]
#: How the remarks of a run from results begin.
ORIGIN = "from the results in"


def import_found(
    project: Project, folder: Path, done: Done, model: Path | None = None, audio: Sequence[Path] = ()
) -> list[dict[str, str]]:
    """Store the annotation files of a run as a run of the page; returns those that could not be read.

    Only files that have changed since they were stored are read; what is from other folders stays. Results of another
    model, or with other settings, become a run of their own, which is shown from then on. With `model`, the recordings
    have to be searched again, which provides the scores. Without it, a model beside the results is used for retraining
    only.
    """
    known, recordings, here = _known(project, done), _recordings(project, done), str(folder.absolute())
    entries = {recording: done[name] for name, recording in recordings.items()}
    tables = {one: table for one in entries if (table := _table(folder, entries[one]["outputs"])) is not None}
    digests = {str(recording.id): [here, file_sha256(table)] for recording, table in tables.items()}
    before: dict[str, list[str]] = {} if known is None else known["health"].get("results", {}).get("tables", {})
    others = {number: kept for number, kept in before.items() if kept[0] != here and number not in digests}
    if known is not None and {**others, **digests} == before:
        _show(project, known["id"])
        return []
    same = {one for one in tables if digests[str(one.id)][-1] == before.get(str(one.id), [""])[-1]}
    read, problems = _read({one: table for one, table in tables.items() if one not in same})
    labels = sorted({note.label for notes in read.values() for note in notes if note.label is not None})
    _add_classes(project, labels)
    run_id = _new_run(project, folder, done, labels, model, audio) if known is None else known["id"]
    gone = [one for one in project.recordings() if str(one.id) in {*before} - {*others} - {*digests}]
    stored = others | {str(one.id): digests[str(one.id)] for one in {*read} | same}
    found = {one: read.get(one, []) for one in (*read, *gone)}
    _store(project, run_id, found, entries, labels, {"identity": _identity(done), "tables": stored})
    _show(project, run_id, new=known is None)
    return problems


def _recordings(project: Project, done: Done) -> dict[str, Recording]:
    """Name in the results → its recording: the one with its bytes, else the one where it was.

    Recordings of other folders may have the same name. Of copies it is the one where it was, or the nearest.
    """
    recordings = {recording.id: recording for recording in project.recordings()}
    at = {recording.path: recording for recording in recordings.values()}
    alike = defaultdict(list)
    for row in project.store.rows("SELECT * FROM recording"):
        alike[row_content(row)].append(recordings[row["id"]])
    found = {}
    for name, entry in done.items():
        path = Path(os.path.realpath(entry["path"]))
        same, here = alike.get(content(entry["file"]), []), at.get(path)
        if same and here not in same:
            here = max(same, key=lambda recording: parts_in_common(path, recording.path))
        if here is not None:
            found[name] = here
    return found


def _show(project: Project, run_id: int, *, new: bool = False) -> None:
    """Show these results, unless the page has trained a model since: then those of that model stay."""
    shown = project.run()
    if new or (shown is not None and _is_import(shown)):
        runs.show(project, run_id, "results of detect")


def _is_import(run: Row) -> bool:
    return any(said.startswith(ORIGIN) for said in run["remarks"])


def _known(project: Project, done: Done) -> Row | None:
    """The run that holds results of this model with these settings, or None."""
    for row in project.store.rows("SELECT id FROM run ORDER BY id DESC"):
        run = project.run(row["id"])
        assert run is not None
        results = run["health"].get("results")
        earlier = results is None and _is_import(run)
        if run["sha256"] == _sha256(done) if earlier else (results or {}).get("identity") == _identity(done):
            return run
    return None


def _identity(done: Done) -> str:
    """Of the model and the settings."""
    return json.dumps(next(iter(done.values()))["identity"], sort_keys=True)


def _read(tables: Mapping[Recording, Path]) -> tuple[dict[Recording, list[Annotation]], list[dict[str, str]]]:
    """The annotations in the file of each recording, and which could not be read."""
    read, problems = {}, []
    for recording, table in tables.items():
        try:
            read[recording] = list(read_annotations(table).annotations)
        except OutlarkError as error:
            problems.append({"name": recording.name, "message": str(error)})
    return read, problems


def _new_run(
    project: Project, folder: Path, done: Done, labels: list[str], model: Path | None, audio: Sequence[Path]
) -> int:
    """A run without results yet; its number."""
    thresholds, kept, given = _thresholds(done, labels), None, None
    nearby = model or _model_nearby(folder, done)
    if nearby is not None:
        given, of_model = _model(project, nearby, done, audio)
        if model is not None:
            kept, thresholds = given["file"], of_model
        _add_classes(project, sorted(of_model))
    with project.store.writing() as db:
        cursor = db.execute(
            "INSERT INTO run (at, model, sha256, classes, thresholds, examples, health, remarks, state) "
            "VALUES (?, ?, ?, ?, ?, '[]', ?, ?, ?)",
            (
                datetime.now(UTC).isoformat(timespec="seconds"), kept, _sha256(done), json.dumps(sorted(thresholds)),
                json.dumps(thresholds), json.dumps({"priors": thresholds, "notes": {}, "given": given}),
                json.dumps([f"{ORIGIN} {folder}"]), SHOWN,
            ),
        )  # fmt: skip
    return int(cursor.lastrowid or 0)


def _store(
    project: Project, run_id: int, found: Mapping[Recording, Sequence[Annotation]],
    entries: Mapping[Recording, Mapping[str, Any]], labels: Sequence[str], results: Mapping[str, Any],
) -> None:  # fmt: skip
    """Replace what a run holds of these recordings, and remember which files that was; verdicts stay as they are."""
    run, ids = project.run(run_id), project.class_ids()
    assert run is not None
    more = dict.fromkeys(set(labels) - set(run["classes"]), 0.0) if run["model"] is None else {}
    health = {**run["health"], "priors": {**run["health"]["priors"], **more}, "results": results}
    with project.store.writing() as db:
        for recording, annotations in found.items():
            runs.replace_detections(db, run_id, recording.id)
            rows = [_row(run_id, recording, annotation, ids) for annotation in annotations]
            insert_detections(db, [row for row in rows if row is not None])
            entry = entries.get(recording)
            remarks = () if entry is None else _facts(entry).all_remarks
            runs.mark_searched(db, run_id, recording, remarks, scores=entry is not None and run["model"] is None)
        db.execute(
            "UPDATE run SET health = ?, classes = ?, thresholds = ? WHERE id = ?",
            (json.dumps(health), json.dumps(sorted({*run["classes"], *more})),
             json.dumps({**run["thresholds"], **more}), run_id),
        )  # fmt: skip


def _facts(entry: Mapping[str, Any]) -> Facts:
    """What `detect` noticed about a recording."""
    return Facts(partial=entry.get("partial"), remarks=tuple(entry.get("remarks") or ()))


def _model_nearby(folder: Path, done: Done) -> Path | None:
    """The model that made the results, if it is in their folder or beside it."""
    files = [*sorted(folder.glob("*.outlark")), *sorted(folder.absolute().parent.glob("*.outlark"))]
    return next((path for path in files if path.is_file() and sha256_of(path) == _sha256(done)), None)


def _model(project: Project, path: Path, done: Done, audio: Sequence[Path]) -> tuple[dict[str, Any], dict[str, float]]:
    """The model, copied into the project (see `training.given_model`), and its thresholds."""
    if sha256_of(path) != _sha256(done):
        raise InputError(f"{path} is not the model that made these results; give that one, or none")
    detector = load(path)
    target = project.folder / "models" / "given.outlark"
    shutil.copyfile(path, target)
    pairs = zip(detector.classes_, detector.layout_.thresholds, strict=True)
    given = {
        "file": f"models/{target.name}", "path": str(path.absolute()), "name": path.name,
        "audio": [str(one.absolute()) for one in audio],
        "examples": dict(Counter(str(note["label"]) for note in detector.training_)),
    }  # fmt: skip
    return given, {str(label): float(threshold) for label, threshold in pairs}


def _table(folder: Path, outputs: Mapping[str, str]) -> Path | None:
    for format in WITH_LABELS:
        for name in outputs:
            if name.endswith(FORMATS[format].suffix) and (folder / name).is_file():
                return folder / name
    return None


def _add_classes(project: Project, labels: list[str]) -> None:
    known = project.class_ids()
    new = [label for label in labels if label not in known]
    if new:
        with project.store.action("classes of the results") as action:
            for number, label in enumerate(new, start=len(known)):
                action.insert("class", name=label, colour=number % 8)


def _thresholds(done: Done, labels: list[str]) -> dict[str, float]:
    """As set for the run, else 0: annotation files do not hold them."""
    given = next((entry["identity"].get("thresholds") for entry in done.values()), None)
    if given is not None and len(given) == len(labels):
        return dict(zip(labels, map(float, given), strict=True))
    return dict.fromkeys(labels, 0.0)


def _sha256(done: Done) -> str | None:
    return next((entry["identity"].get("model_sha256") for entry in done.values()), None)


def _row(run_id: int, recording: Recording, annotation: Annotation, ids: Mapping[str, int]) -> tuple[Any, ...] | None:
    verdict = annotation.implied_verdict
    t0, t1 = (
        min(recording.n_samples, round(t * recording.sample_rate)) for t in (annotation.start_s, annotation.end_s)
    )
    if verdict == SILENCE or t1 <= t0:
        return None
    label = None if annotation.label is None else ids[annotation.label]
    return (run_id, recording.id, label, verdict, t0, t1, annotation.score or 0.0, annotation.runner_up,
            annotation.runner_up_score, annotation.reason, annotation.low_hz, annotation.high_hz)  # fmt: skip
