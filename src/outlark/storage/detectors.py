"""A trained detector as a header and arrays that a file can hold, and back: the same segments to the last bit.

What was left to the defaults is spelt out, so that another outlark, with other defaults, still gives these segments.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from outlark.detection.contrast import CLEAR_DB, SOUND_DB
from outlark.detection.decode.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.detection.edges import LOOK, Edges
from outlark.detection.note_level import NoteModel
from outlark.detection.scores import ScoreLayout
from outlark.detection.second_stage import Embedding, SecondStage
from outlark.detection.thresholds import CALIBRATION as CALIBRATED
from outlark.detection.thresholds import EXAMPLES, HAND, SOURCES, sources_of
from outlark.detection.valley import BINS, ClassCalibration
from outlark.errors import InputError, ModelFileError
from outlark.features.array import ArrayFrontEnd
from outlark.features.base import FrontEnd
from outlark.features.noise_floor import check_seconds
from outlark.features.note import NoteFrontEnd
from outlark.files.fields import NEWER, Fields, decoded, encoded, put_kind, scalar, take_kind
from outlark.maths.description import Description, describe
from outlark.storage import estimators as estimator_state
from outlark.storage import front_ends as front_end_state
from outlark.storage.front_ends import WRONG

KIND = "NoteDetector"
DECISIONS = {"Decisions": Decisions}
#: What is known of the calibration of a class, and of a training note, and of which type.
CALIBRATION = {
    "label": object, "prior": float, "threshold": float, "n_below": int, "n_above": int, "counts": list,
}  # fmt: skip
RECORD = {"recording": int, "name": str | None, "label": object, "start_s": float, "end_s": float, "sha256": str}
#: What is known of a note only where somebody said so.
MORE = {"low_hz": float, "high_hz": float, "clip": bool, "score": float}
#: What is known of a model that another one was trained from.
ANCESTOR = {"name": str, "sha256": str, "kept": int, "added": int, "negatives": int}


def state_of(detector: NoteDetector) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """All that a trained detector knows, as strict JSON and arrays.

    Raises
    ------
    InputError
        For a detector that does not work, or with a part that a file cannot hold.
    """
    if type(detector) is not NoteDetector:
        kinds = ", ".join(estimator_state.KINDS)
        raise InputError(f"{type(detector).__name__} cannot be saved; give a {KIND}, or one of {kinds}")
    check_is_fitted(detector)
    layout = detector.layout_
    front_end, front_end_arrays = front_end_state.state_of(detector.front_end_)
    describer, describer_arrays = estimator_state.state_of(detector.describer_)
    _try(detector)
    header = {
        "kind": KIND,
        "classes": [encoded(label, "classes") for label in detector.classes_.tolist()],
        "sample_rate": int(detector.sample_rate_),
        "frames": {"hop_samples": int(layout.hop_samples), "offset_samples": int(layout.offset_samples)},
        "gap_s": encoded(detector.gap_s, "gap_s"),
        "front_end": front_end,
        "choice": list(detector.choice_),
        "describer": describer,
        "decisions": put_kind(detector._decisions(), DECISIONS),
        "threshold_sources": list(detector.threshold_sources_),
        "training": [{**note, "label": encoded(note["label"], "label")} for note in detector.training_],
    }
    if detector.negatives_:
        header["negatives"] = [{**note, "label": encoded(note["label"], "label")} for note in detector.negatives_]
    if detector.lineage_:
        header["lineage"] = [dict(ancestor) for ancestor in detector.lineage_]
    stage, stage_arrays = detector.second_stage_, dict[str, np.ndarray]()
    if stage is not None:
        described, stage_arrays = estimator_state.state_of(stage.describer)
        parameters = encoded(stage.identity["parameters"], "parameters of the embedding")
        embedding = {**stage.identity, "parameters": parameters}
        header["second_stage"] = {"embedding": embedding, "threshold": stage.threshold, "describer": described}
    if detector.calibration_:
        header["calibration"] = [_calibration_row(c) for c in detector.calibration_]
    found = {name: getattr(layout, name) for name in ("thresholds", "shortest_s", "longest_s", "note_thresholds")}
    arrays = {f"layout/{name}": np.array(array, float) for name, array in found.items() if array is not None}
    if detector.note_model_ is not None:
        model = detector.note_model_
        arrays |= {f"notes/{name}": getattr(model, name) for name in ("lengths", "allowed", "thresholds")}
        if model.edges is not None:
            arrays |= {"notes/starts": model.edges.starts, "notes/ends": model.edges.ends}
        if model.contrast_db is not None:
            arrays["notes/contrast_db"] = np.array([model.contrast_db])
        if model.left_out is not None:
            arrays["notes/left_out"] = np.concatenate(model.left_out).astype(float)
            arrays["notes/left_out_counts"] = np.array([len(scores) for scores in model.left_out], dtype=np.int64)
        if model.rejected is not None:
            samples = [np.empty((0, model.describer.n_features_in_)) if d is None else d.X for d in model.rejected]
            arrays["notes/rejected"] = np.concatenate(samples)
            arrays["notes/rejected_counts"] = np.array([len(X) for X in samples], dtype=np.int64)
    arrays |= {f"front_end/{name}": array for name, array in front_end_arrays.items()}
    arrays |= {f"second_stage/{name}": array for name, array in stage_arrays.items()}
    return header, arrays | {f"describer/{name}": array for name, array in describer_arrays.items()}


def from_state(
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    embedding: Callable[[dict[str, Any]], Embedding] | None = None,
) -> NoteDetector:
    """The detector that `state_of` was given. It takes the arrays over; `embedding` finds one by its identity.

    Raises
    ------
    ModelFileError
        When something is missing or does not fit the rest; the message names it.
    """
    if header.get("kind") in estimator_state.KINDS:
        raise ModelFileError(
            f"it holds a describer alone ({header['kind']}), which hears nothing; read it with "
            f"outlark.storage.model_file.load_estimator, or give the file of a {KIND}"
        )
    if header.get("kind") != KIND:
        raise ModelFileError(f"it holds a {header.get('kind')!r:.100}, not a {KIND}; {NEWER}")
    describer = estimator_state.from_state(header.get("describer"), _part(arrays, "describer/"))
    front_end = front_end_state.from_state(
        header.get("front_end"), _part(arrays, "front_end/"), header.get("sample_rate"), describer.n_features_in_
    )
    try:
        choice = _choice(header.get("choice", []))
        absolute = "notes/contrast_db" in arrays
        detector = NoteDetector(
            None if choice else clone(front_end),  # what chose itself does so again
            None if absolute else clone(describer),
            take_kind(header.get("decisions"), DECISIONS, "way to decide"),
            gap_s=check_seconds("gap_s", decoded(header.get("gap_s"), "gap_s"), zero=True),
        )
        detector.front_end_, detector.describer_, detector.classes_ = front_end, describer, describer.classes_
        detector.sample_rate_ = detector._rate(front_end.sample_rate_)
        detector.layout_ = _layout(header, front_end, describer.classes_, Fields({}, _part(arrays, "layout/")))
        detector.note_model_ = _note_model(front_end, describer, Fields({}, _part(arrays, "notes/")))
        detector.second_stage_ = _second_stage(header.get("second_stage"), _part(arrays, "second_stage/"), embedding)
        if detector.second_stage_ is not None:
            if detector.second_stage_.describer.classes_.tolist() != detector.classes_.tolist():
                raise ModelFileError("its two stages know different classes; save the model again")
            detector.embedding = detector.second_stage_.embedding
        detector.choice_ = choice
        detector.training_ = _training(header.get("training"), detector.classes_.tolist())
        detector.negatives_ = _training(header.get("negatives", []), detector.classes_.tolist())
        detector.lineage_ = _lineage(header.get("lineage", []))
        sources = header.get("threshold_sources")
        detector.calibration_ = _calibration(header.get("calibration", []), detector.layout_, sources)
        if detector.calibration_ and detector.note_model_ is not None and detector.second_stage_ is None:
            # files of before had the calibrated ones here, too
            trained = np.array([c.prior for c in detector.calibration_])
            detector.note_model_ = replace(detector.note_model_, thresholds=trained)
        detector.threshold_sources_ = _sources(sources, detector)
        _try(detector)
    except ModelFileError:
        raise
    except WRONG as error:
        raise ModelFileError(f"the detector is damaged: {error!s:.300}; save it again") from None
    return detector


def _try(detector: NoteDetector) -> None:
    """One frame of silence through the whole system: what is wrong with it comes out now and not in the field."""
    front_end = detector.front_end_
    n_samples = front_end.hop_samples_ + sum(front_end.context_samples_)
    stream = detector.stream()
    stream.push(np.zeros((n_samples, front_end.n_channels_) if isinstance(front_end, ArrayFrontEnd) else n_samples))
    stream.finish()


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _layout(header: dict[str, Any], front_end: FrontEnd, classes: np.ndarray, fields: Fields) -> ScoreLayout:
    listed = decoded(header.get("classes"), "classes")
    if listed != classes.tolist():
        raise ModelFileError(
            f"its classes are {listed!r:.100}, but its describer knows {classes.tolist()!r:.100}; save the model again"
        )
    made = {"hop_samples": front_end.hop_samples_, "offset_samples": front_end.offset_samples_}
    if header.get("frames") != made:
        raise ModelFileError(f"it is for frames {header.get('frames')!r:.100}, this outlark makes {made}; {NEWER}")
    shortest, longest = fields.array("shortest_s", len(classes)), fields.array("longest_s", len(classes))
    if not ((shortest > 0.0) & (shortest <= longest)).all():
        raise ModelFileError("arrays 'shortest_s' and 'longest_s' must be positive and in order; save the model again")
    thresholds = fields.array("thresholds", len(classes), finite=False)
    of_notes = (
        fields.array("note_thresholds", len(classes), finite=False) if "note_thresholds" in fields.arrays else None
    )
    return ScoreLayout(
        classes=classes, thresholds=thresholds, sample_rate=front_end.sample_rate_, **made,
        shortest_s=shortest, longest_s=longest, note_thresholds=of_notes,
    )  # fmt: skip


def _note_model(front_end: FrontEnd, describer: Any, fields: Fields) -> NoteModel | None:
    if not isinstance(front_end, NoteFrontEnd):
        return None
    C, lengths = len(describer.classes_), fields.array("lengths", None)
    allowed = fields.array("allowed", len(lengths), C, kind="b")
    if not (lengths > 0.0).all() or not allowed.any(axis=0).all():
        raise ModelFileError("arrays 'lengths' and 'allowed' must give each class a length above 0; save it again")
    thresholds = fields.array("thresholds", C, finite=False)
    edges = None
    if fields.arrays.keys() & {"starts", "ends"}:
        starts = fields.array("starts", C, None, front_end.n_bands)
        if starts.shape[1] not in (LOOK + 1, 2 * LOOK + 1):
            raise ModelFileError(f"array 'starts' has {starts.shape[1]} spectra; save the model again")
        edges = Edges(starts, fields.array("ends", *starts.shape))
    return NoteModel(
        describer=describer, lengths=lengths, allowed=allowed, thresholds=thresholds, edges=edges,
        left_out=_left_out(fields, C), contrast_db=_contrast_db(fields), rejected=_rejected(fields, describer),
    )  # fmt: skip


def _second_stage(
    found: Any, arrays: dict[str, np.ndarray], embedding: Callable[[dict[str, Any]], Embedding] | None
) -> SecondStage | None:
    if found is None:
        return None
    match found:
        case {
            "embedding": {"name": str(), "version": str(), "parameters": parameters} as identity,
            "threshold": float(threshold),
        } if threshold > 0.0:
            pass
        case _:
            raise ModelFileError(f"its second stage is {found!r:.200}, which cannot be; save the model again")
    if embedding is None:
        raise ModelFileError(f"it needs the embedding {identity['name']!r:.100}; load it with outlark.load")
    made = embedding({**identity, "parameters": decoded(parameters, "parameters of the embedding")})
    describer = estimator_state.from_state(found.get("describer"), arrays)
    return SecondStage(embedding=made, describer=describer, threshold=threshold)


def _contrast_db(fields: Fields) -> float | None:
    if "contrast_db" not in fields.arrays:
        return None
    (contrast_db,) = fields.array("contrast_db", 1).tolist()
    if not SOUND_DB <= contrast_db <= CLEAR_DB:
        raise ModelFileError(
            f"array 'contrast_db' is {contrast_db:g}, not {SOUND_DB:g} to {CLEAR_DB:g}; save the model again"
        )
    return float(contrast_db)


def _left_out(fields: Fields, n_classes: int) -> list[np.ndarray] | None:
    if not fields.arrays.keys() & {"left_out", "left_out_counts"}:
        return None
    joined, counts = fields.array("left_out", None), fields.array("left_out_counts", n_classes, kind="i").tolist()
    if min(counts) < 0 or sum(counts) != len(joined):
        raise ModelFileError(
            f"array 'left_out' holds {len(joined)} scores, but 'left_out_counts' is {counts!s:.100}; save it again"
        )
    found = np.split(joined, np.cumsum(counts)[:-1])
    if any((np.diff(scores) < 0.0).any() for scores in found):
        raise ModelFileError("array 'left_out' must hold the scores of each class in order; save the model again")
    return found


def _rejected(fields: Fields, describer: Any) -> list[Description | None] | None:
    if not fields.arrays.keys() & {"rejected", "rejected_counts"}:
        return None
    joined = fields.array("rejected", None, describer.n_features_in_)
    counts = fields.array("rejected_counts", len(describer.classes_), kind="i").tolist()
    if min(counts) < 0 or sum(counts) != len(joined):
        raise ModelFileError(
            f"array 'rejected' holds {len(joined)} samples, but 'rejected_counts' is {counts!s:.100}; save it again"
        )
    pairs = zip(np.split(joined, np.cumsum(counts)[:-1]), describer.descriptions_, strict=True)
    return [describe(X, own.ell, own.ratio) if len(X) else None for X, own in pairs]


def _lineage(found: Any) -> list[dict[str, Any]]:
    """The models that it was trained from, once every entry is found to be of its type."""
    if not isinstance(found, list):
        raise ModelFileError(f"its lineage is {found!r:.100}, not a list; save the model again")
    for row in found:
        fits = isinstance(row, dict) and row.keys() == ANCESTOR.keys()
        if not fits or not all(
            isinstance(row[name], kind) and row[name] is not True for name, kind in ANCESTOR.items()
        ):
            raise ModelFileError(f"a model that it was trained from is {row!r:.200}, which cannot be; save it again")
    return found


def _choice(sentences: Any) -> list[str]:
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise ModelFileError(f"its choice of a front end is {sentences!r:.100}, not sentences; save the model again")
    return sentences


def _calibration_row(found: ClassCalibration) -> dict[str, Any]:
    """What is kept of it; what was set by hand is told by where thresholds come from."""
    row = {**asdict(found), "label": encoded(found.label, "label"), "counts": list(found.counts)}
    return {name: row[name] for name in CALIBRATION}


def _sources(found: Any, detector: NoteDetector) -> list[str]:
    """Where thresholds come from; files of before tell it by their calibration alone."""
    n, calibration = len(detector.classes_), detector.calibration_
    if found is None:
        return sources_of(calibration) or [EXAMPLES] * n
    if not isinstance(found, list) or len(found) != n or not all(source in SOURCES for source in found):
        raise ModelFileError(f"its thresholds come from {found!r:.100}, which cannot be; save the model again")
    if found != (sources_of(calibration) or [EXAMPLES if source == CALIBRATED else source for source in found]):
        raise ModelFileError(f"its thresholds come from {found!r:.100}, not what its calibration says; save it again")
    return found


def _calibration(found: Any, layout: ScoreLayout, sources: Any) -> list[ClassCalibration]:
    """What `calibrate` did; its thresholds are those of the model."""
    if not isinstance(found, list):
        raise ModelFileError(f"its calibration is {found!r:.100}, not a list; save the model again")
    calibration: list[ClassCalibration] = []
    for row, label, threshold in zip(found, layout.classes.tolist(), layout.thresholds.tolist(), strict=bool(found)):
        fits = isinstance(row, dict) and row.keys() == CALIBRATION.keys()
        fits = fits and all(isinstance(row[name], kind) and row[name] is not True for name, kind in CALIBRATION.items())
        if (
            not fits
            or decoded(row["label"], "label") != label
            or row["threshold"] != threshold
            or not row["prior"] > 0.0
        ):
            raise ModelFileError(f"the calibration of {label!r:.50} is {row!r:.200}, which cannot be; save it again")
        if len(row["counts"]) != len(BINS) - 1 or not all(type(n) is int and n >= 0 for n in row["counts"]):
            raise ModelFileError(f"the histogram of {label!r:.50} is {row['counts']!r:.100}; save the model again")
        by_hand = isinstance(sources, list) and sources[len(calibration) : len(calibration) + 1] == [HAND]
        counts = tuple(row["counts"])
        calibration.append(ClassCalibration(**{**row, "label": label, "counts": counts, "by_hand": by_hand}))
    return calibration


def _training(notes: Any, classes: list[Any]) -> list[dict[str, Any]]:
    """The list of training notes, once every entry is found to be of its type."""
    if not isinstance(notes, list) or not all(isinstance(note, dict) for note in notes):
        raise ModelFileError(f"its training notes are {notes!r:.100}, not a list of dicts; save the model again")
    found = []
    for note in notes:
        row = {**note, "label": scalar(decoded(note.get("label"), "label"), "label")}
        fits = all(isinstance(row.get(name, ...), kind) for name, kind in RECORD.items())
        fits = fits and all(isinstance(row[name], kind) for name, kind in MORE.items() if name in row)
        if not fits or row["label"] not in classes:
            raise ModelFileError(f"a training note is {note!r:.200}, which cannot be; save the model again")
        found.append({name: row[name] for name in (*RECORD, *MORE) if name in row})
    return found
