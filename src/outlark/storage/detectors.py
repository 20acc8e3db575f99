"""A trained detector as a JSON header and arrays for a file, and back: the same segments to the last bit.

Defaults are written out, so that another version of outlark, with other defaults, still gives the same segments. A file
chooses among the kinds listed here by name and can name nothing else.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from outlark.detection.contrast import CLEAR_DB, SOUND_DB
from outlark.detection.decode.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.detection.edges import LOOK, Edges
from outlark.detection.frame_level import FrameModel
from outlark.detection.model import DetectorModel
from outlark.detection.note_level import NoteModel
from outlark.detection.second_stage import Embedding, SecondStage
from outlark.detection.thresholds import BINS, HAND, ClassCalibration
from outlark.errors import InputError, ModelFileError
from outlark.features.array import ArrayFrontEnd
from outlark.features.base import FrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.noise_floor import check_seconds
from outlark.features.note import NoteFrontEnd
from outlark.features.spectrum import check_count
from outlark.files.fields import NEWER, Fields, decoded, encoded, put_kind, scalar, take_kind
from outlark.maths.description import Description, describe
from outlark.storage import estimators

KIND = "NoteDetector"
DECISIONS = {"Decisions": Decisions}
FRONT_ENDS: dict[str, type[FrontEnd]] = {kind.__name__: kind for kind in (HLDSFrontEnd, NoteFrontEnd, ArrayFrontEnd)}
#: Front ends of earlier versions.
GONE = ("PatchFrontEnd",)
#: The entries of each record and their types: of the calibration of a class, a note, and an ancestor of the model.
CALIBRATION = {
    "label": object, "prior": float, "threshold": float, "n_below": int, "n_above": int, "counts": list,
}  # fmt: skip
NOTE = {"recording": int, "name": str | None, "label": object, "start_s": float, "end_s": float, "sha256": str}
ANCESTOR = {"name": str, "sha256": str, "kept": int, "added": int, "negatives": int}
#: Entries that only some notes have.
SOMETIMES = {"low_hz": float, "high_hz": float, "clip": bool, "score": float}
#: Limits, so that no file can ask for all the memory there is: in samples, …
MOST_SAMPLES = {"window_s": 2**18, "surroundings_s": 2**18, "lag_s": 2**22}
#: … and in numbers of layers.
MOST_LAYERS = 100
#: What wrong settings raise, one way or another, where they are used.
WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
Arrays = dict[str, np.ndarray]


def state_of(detector: NoteDetector) -> tuple[dict[str, Any], Arrays]:
    """All that a trained detector knows, as strict JSON and arrays; an error for one that does not work."""
    if type(detector) is not NoteDetector:
        kinds = ", ".join(estimators.KINDS)
        raise InputError(f"{type(detector).__name__} cannot be saved; give a {KIND}, or one of {kinds}")
    check_is_fitted(detector)
    model = detector.model_
    front_end, front_end_arrays = _front_end_state(detector.front_end_)
    describer, describer_arrays = estimators.state_of(detector.describer_)
    _try(detector)
    layout = model.layout
    header = {
        "kind": KIND,
        "classes": [encoded(label, "classes") for label in model.classes.tolist()],
        "sample_rate": int(layout.sample_rate),
        "frames": {"hop_samples": int(layout.hop_samples), "offset_samples": int(layout.offset_samples)},
        "gap_s": encoded(detector.gap_s, "gap_s"),
        "front_end": front_end,
        "choice": list(model.choice),
        "describer": describer,
        "decisions": put_kind(detector.decisions_, DECISIONS),
        "threshold_sources": model.threshold_sources,
        "training": _with_labels(model.training),
    }
    arrays = _named("front_end", front_end_arrays) | _named("describer", describer_arrays)
    if model.negatives:
        header["negatives"] = _with_labels(model.negatives)
    if model.lineage:
        header["lineage"] = [dict(ancestor) for ancestor in model.lineage]
    if model.calibration:
        rows = [{**asdict(c), "counts": list(c.counts)} for c in model.calibration]
        header["calibration"] = _with_labels({name: row[name] for name in CALIBRATION} for row in rows)
    if model.second_stage is not None:
        header["second_stage"], more = _second_stage_state(model.second_stage)
        arrays |= _named("second_stage", more)
    kept = {name: getattr(layout, name) for name in ("thresholds", "shortest_s", "longest_s", "note_thresholds")}
    arrays |= _named("layout", {name: np.array(a, float) for name, a in kept.items() if a is not None})
    if isinstance(model.first_stage, NoteModel):
        arrays |= _named("notes", _note_arrays(model.first_stage))
    return header, arrays


def from_state(
    header: dict[str, Any], arrays: Arrays, embedding: Callable[[dict[str, Any]], Embedding] | None = None
) -> NoteDetector:
    """The detector that `state_of` was given. It takes the arrays over; `embedding` finds one by its identity.

    A ModelFileError names what is missing or does not fit the rest.
    """
    if header.get("kind") in list(estimators.KINDS):  # a list, because what stands there may be anything
        raise ModelFileError(
            f"it holds a class model alone ({header['kind']}), which takes no sound; read it with "
            f"outlark.storage.model_file.load_estimator, or give the file of a {KIND}"
        )
    if header.get("kind") != KIND:
        raise ModelFileError(f"it holds a {header.get('kind')!r:.100}, not a {KIND}; {NEWER}")
    describer = estimators.from_state(header.get("describer"), _part(arrays, "describer/"))
    try:
        front_end = _front_end(header, _part(arrays, "front_end/"), describer.n_features_in_)
        model = _model(header, arrays, front_end, describer, embedding)
        detector = NoteDetector(
            None if model.choice else clone(front_end),  # it chose its own settings, and will do so again
            None if "notes/contrast_db" in arrays else clone(describer),
            take_kind(header.get("decisions"), DECISIONS, "way to decide"),
            gap_s=check_seconds("gap_s", decoded(header.get("gap_s"), "gap_s"), zero=True),
            embedding=None if model.second_stage is None else model.second_stage.embedding,
        )
        detector.model_ = model
        _try(detector)
    except ModelFileError:
        raise
    except WRONG as error:
        raise ModelFileError(f"the detector is damaged: {error!s:.300}; save it again") from None
    return detector


def _try(detector: NoteDetector) -> None:
    """Pass one frame of silence through the whole system, so that faults show now and not in the field."""
    front_end = detector.front_end_
    stream = detector.stream()
    stream.push(front_end.silence(front_end.hop_samples_ + sum(front_end.context_samples_)))
    stream.finish()


def _named(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _with_labels(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "label": encoded(row["label"], "label")} for row in rows]


# -------------------------------------------------------------------- front ends


def _front_end_state(front_end: FrontEnd) -> tuple[dict[str, Any], Arrays]:
    """Parameters, and for series what was learnt; the others learn nothing."""
    fields = Fields(put_kind(front_end, FRONT_ENDS), {})
    _check_size(front_end, front_end.sample_rate_)
    if isinstance(front_end, ArrayFrontEnd):
        for name in ("n_channels", "window_samples", "hop_samples", "floor_s"):
            fields.put_value(name, getattr(front_end, f"{name}_"))
        for name in ("power", "mean", "scale"):
            fields.put_array(name, getattr(front_end, f"{name}_"))
    return fields.settings, fields.arrays


def _front_end(header: dict[str, Any], arrays: Arrays, width: int) -> FrontEnd:
    """What `_front_end_state` was given; `width` is the number of features that the class model takes."""
    settings, sample_rate = header.get("front_end"), header.get("sample_rate")
    if isinstance(settings, dict) and settings.get("kind") in GONE:
        raise ModelFileError(f"it was trained with {settings['kind']}, which outlark no longer has; train it again")
    front_end = take_kind(settings, FRONT_ENDS, "front end")
    try:
        _check_size(front_end, ArrayFrontEnd.check_rate(sample_rate))
        if isinstance(front_end, ArrayFrontEnd):
            _take_array(Fields(dict(cast("dict[str, Any]", settings)), arrays), front_end, sample_rate)
        else:
            if isinstance(front_end, NoteFrontEnd):  # before fitting: it shows whether the numbers are sensible
                _check_width(front_end, front_end.n_slices * front_end.n_bands, width)
            front_end.fit([], sample_rate)
        if not isinstance(front_end, NoteFrontEnd):
            _check_width(front_end, front_end.n_features_, width)
    except ModelFileError:
        raise
    except WRONG as error:
        raise ModelFileError(f"its front end is damaged: {error!s:.300}; save the model again") from None
    return cast("FrontEnd", front_end)


def _check_size(front_end: Any, sample_rate: int) -> None:
    """Refuse what would take more memory than a front end ever needs."""
    for name, most in MOST_SAMPLES.items():
        value = getattr(front_end, name, None)
        if isinstance(value, Real) and float(value) * sample_rate > most:
            raise InputError(f"{name}={value!r:.100} is more than {most} samples, too many to keep; give less")
    for name in ("layers", "output"):
        entries: Any = getattr(front_end, name, "")
        if not isinstance(entries, str) and len(entries) > MOST_LAYERS:
            raise InputError(f"{name} has {len(entries)} entries, too many to keep; give {MOST_LAYERS} or fewer")
    for name in ("n_slices", "n_bands"):
        check_count(name, getattr(front_end, name, 1))


def _check_width(front_end: FrontEnd, found: int, width: int) -> None:
    if found != width:
        raise ModelFileError(
            f"its {type(front_end).__name__} gives {found!r:.100} features, but its class model takes {width}; save "
            "the model again"
        )


def _take_array(fields: Fields, front_end: ArrayFrontEnd, sample_rate: Any) -> None:
    n_channels, window, hop = (fields.positive(name) for name in ("n_channels", "window_samples", "hop_samples"))
    if not all(type(n) is int for n in (n_channels, window, hop)) or not hop <= window <= MOST_SAMPLES["window_s"]:
        raise ModelFileError(
            f"its windows of {window!r:.20} samples, one every {hop!r:.20}, of {n_channels!r:.20} channels cannot be; "
            "save the model again"
        )
    front_end._check_settings()
    front_end.power_ = fields.array("power", n_channels)
    front_end.mean_ = fields.array("mean", n_channels * (2 + front_end.n_bands))
    front_end.scale_ = fields.array("scale", len(front_end.mean_))
    if (front_end.power_ < 0.0).any() or (front_end.scale_ <= 0.0).any():
        raise ModelFileError("arrays 'power' and 'scale' must be positive; save the model again")
    front_end.sample_rate_, front_end.n_channels_ = front_end.check_rate(sample_rate), n_channels
    front_end.n_features_ = len(front_end.mean_)
    front_end._set_samples(window, hop, float(fields.positive("floor_s")))


# ------------------------------------------------------------------------- model


def _model(
    header: dict[str, Any],
    arrays: Arrays,
    front_end: FrontEnd,
    describer: Any,
    embedding: Callable[[dict[str, Any]], Embedding] | None,
) -> DetectorModel:
    classes, fields = describer.classes_.tolist(), Fields({}, _part(arrays, "layout/"))
    _check_frames(header, front_end, classes)
    shortest, longest = fields.array("shortest_s", len(classes)), fields.array("longest_s", len(classes))
    if not ((shortest > 0.0) & (shortest <= longest)).all():
        raise ModelFileError("arrays 'shortest_s' and 'longest_s' must be positive and in order; save the model again")
    choice = header.get("choice", [])
    if not isinstance(choice, list) or not all(isinstance(sentence, str) for sentence in choice):
        raise ModelFileError(f"its choice of a front end is {choice!r:.100}, not sentences; save the model again")
    model = DetectorModel(
        first_stage=_first_stage(front_end, describer, fields, Fields({}, _part(arrays, "notes/"))),
        shortest_s=shortest,
        longest_s=longest,
        second_stage=_second_stage(header.get("second_stage"), _part(arrays, "second_stage/"), classes, embedding),
        calibration=_calibration(header.get("calibration", []), classes),
        by_hand=_by_hand(header.get("threshold_sources"), fields, classes),
        training=_notes(header.get("training"), classes),
        negatives=_notes(header.get("negatives", []), classes),
        lineage=_records(header.get("lineage", []), ANCESTOR, "lineage", "model that it was trained from"),
        choice=choice,
    )
    told, found = fields.array("thresholds", len(classes), finite=False), model.thresholds
    if not np.array_equal(told, found) or header.get("threshold_sources") != model.threshold_sources:
        raise ModelFileError(
            f"its thresholds come from {header.get('threshold_sources')!r:.100} and are {told.tolist()!s:.100}, but "
            f"training, calibration and settings by hand give {found.tolist()!s:.100}; save the model again"
        )
    return model


def _check_frames(header: dict[str, Any], front_end: FrontEnd, classes: list[Any]) -> None:
    listed = decoded(header.get("classes"), "classes")
    if listed != classes:
        raise ModelFileError(
            f"its classes are {listed!r:.100}, but its class model knows {classes!r:.100}; save the model again"
        )
    made = {"hop_samples": front_end.hop_samples_, "offset_samples": front_end.offset_samples_}
    if header.get("frames") != made:
        raise ModelFileError(f"it is for frames {header.get('frames')!r:.100}, this outlark makes {made}; {NEWER}")


def _first_stage(front_end: FrontEnd, describer: Any, layout: Fields, notes: Fields) -> NoteModel | FrameModel:
    C = len(describer.classes_)
    if not front_end.note_level:
        of_notes = layout.array("note_thresholds", C, finite=False) if "note_thresholds" in layout.arrays else None
        return FrameModel(front_end=front_end, describer=describer, note_thresholds=of_notes)
    own = cast("NoteFrontEnd", front_end)
    lengths = notes.array("lengths", None)
    allowed = notes.array("allowed", len(lengths), C, kind="b")
    if not (lengths > 0.0).all() or not allowed.any(axis=0).all():
        raise ModelFileError("arrays 'lengths' and 'allowed' must give each class a length above 0; save it again")
    starts = notes.array("starts", C, None, own.n_bands)
    if starts.shape[1] not in (LOOK + 1, 2 * LOOK + 1):
        raise ModelFileError(f"array 'starts' has {starts.shape[1]} spectra; save the model again")
    left_out = _split(notes, "left_out", "scores", C)
    if any((np.diff(scores) < 0.0).any() for scores in left_out):
        raise ModelFileError("array 'left_out' must hold the scores of each class in order; save the model again")
    return NoteModel(
        front_end=own,
        describer=describer,
        lengths=lengths,
        allowed=allowed,
        thresholds=notes.array("thresholds", C, finite=False),
        edges=Edges(starts, notes.array("ends", *starts.shape)),
        left_out=left_out,
        contrast_db=_contrast_db(notes),
        rejected=_rejected(notes, describer),
    )


def _note_arrays(model: NoteModel) -> Arrays:
    arrays = {name: getattr(model, name) for name in ("lengths", "allowed", "thresholds")}
    assert model.edges is not None
    arrays |= {"starts": model.edges.starts, "ends": model.edges.ends}
    arrays |= _joined("left_out", [scores.astype(float) for scores in model.left_out])
    if model.contrast_db is not None:
        arrays["contrast_db"] = np.array([model.contrast_db])
    if model.rejected is not None:
        none = np.empty((0, model.describer.n_features_in_))
        arrays |= _joined("rejected", [none if d is None else d.X for d in model.rejected])
    return arrays


def _joined(name: str, of_classes: list[np.ndarray]) -> Arrays:
    counts = np.array([len(rows) for rows in of_classes], dtype=np.int64)
    return {name: np.concatenate(of_classes), f"{name}_counts": counts}


def _split(fields: Fields, name: str, what: str, n_classes: int, *shape: int) -> list[np.ndarray]:
    joined = fields.array(name, None, *shape)
    counts = fields.array(f"{name}_counts", n_classes, kind="i").tolist()
    if min(counts) < 0 or sum(counts) != len(joined):
        raise ModelFileError(
            f"array {name!r} holds {len(joined)} {what}, but '{name}_counts' is {counts!s:.100}; save it again"
        )
    return np.split(joined, np.cumsum(counts)[:-1])


def _contrast_db(fields: Fields) -> float | None:
    if "contrast_db" not in fields.arrays:
        return None
    (contrast_db,) = fields.array("contrast_db", 1).tolist()
    if not SOUND_DB <= contrast_db <= CLEAR_DB:
        raise ModelFileError(
            f"array 'contrast_db' is {contrast_db:g}, not {SOUND_DB:g} to {CLEAR_DB:g}; save the model again"
        )
    return float(contrast_db)


def _rejected(fields: Fields, describer: Any) -> list[Description | None] | None:
    if not fields.arrays.keys() & {"rejected", "rejected_counts"}:
        return None
    samples = _split(fields, "rejected", "samples", len(describer.classes_), describer.n_features_in_)
    pairs = zip(samples, describer.descriptions_, strict=True)
    return [describe(X, own.ell, own.ratio) if len(X) else None for X, own in pairs]


def _second_stage_state(stage: SecondStage) -> tuple[dict[str, Any], Arrays]:
    described, arrays = estimators.state_of(stage.describer)
    identity = stage.identity
    embedding = {**identity, "parameters": encoded(identity["parameters"], "parameters of the embedding")}
    return {"embedding": embedding, "threshold": stage.threshold, "describer": described}, arrays


def _second_stage(
    found: Any, arrays: Arrays, classes: list[Any], embedding: Callable[[dict[str, Any]], Embedding] | None
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
    describer = estimators.from_state(found.get("describer"), arrays)
    if describer.classes_.tolist() != classes:
        raise ModelFileError("its two stages know different classes; save the model again")
    return SecondStage(embedding=made, describer=describer, threshold=threshold)


# ----------------------------------------------------------------------- records


def _records(found: Any, types: Mapping[str, Any], what: str, one: str, more: Mapping[str, Any] = {}) -> list[Any]:
    """A list of dicts, once every entry is found to be of its type."""
    if not isinstance(found, list):
        raise ModelFileError(f"its {what} is {found!r:.100}, not a list; save the model again")
    for row in found:
        fits = isinstance(row, dict) and types.keys() <= row.keys() <= types.keys() | more.keys()
        kinds = {**types, **more}
        if not fits or not all(isinstance(v, kinds[k]) and (v is not True or kinds[k] is bool) for k, v in row.items()):
            raise ModelFileError(f"a {one} is {row!r:.200}, which cannot be; save the model again")
    return found


def _notes(found: Any, classes: list[Any]) -> list[dict[str, Any]]:
    rows = []
    for note in _records(found, NOTE, "list of training notes", "training note", SOMETIMES):
        in_order = {name: note[name] for name in (*NOTE, *SOMETIMES) if name in note}
        rows.append({**in_order, "label": scalar(decoded(note["label"], "label"), "label")})
        if rows[-1]["label"] not in classes:
            raise ModelFileError(f"a training note is {note!r:.200}, of no class; save the model again")
    return rows


def _calibration(found: Any, classes: list[Any]) -> tuple[ClassCalibration, ...]:
    rows = _records(found, CALIBRATION, "calibration", "calibration of a class")
    calibration = tuple(
        ClassCalibration(**{**row, "label": decoded(row["label"], "label"), "counts": tuple(row["counts"])})
        for row in rows
    )
    if calibration and [c.label for c in calibration] != classes:
        raise ModelFileError(f"its calibration is of {[c.label for c in calibration]!r:.100}; save the model again")
    for c in calibration:
        counts = len(c.counts) == len(BINS) - 1 and all(type(n) is int and n >= 0 for n in c.counts)
        if not counts or not c.prior > 0.0:
            raise ModelFileError(f"the calibration of {c.label!r:.50} is {c!r:.200}, which cannot be; save it again")
    return calibration


def _by_hand(sources: Any, fields: Fields, classes: list[Any]) -> dict[Any, float]:
    if not isinstance(sources, list) or len(sources) != len(classes):
        raise ModelFileError(f"its thresholds come from {sources!r:.100}, which cannot be; save the model again")
    thresholds = fields.array("thresholds", len(classes), finite=False).tolist()
    told = zip(classes, sources, thresholds, strict=True)
    return {label: threshold for label, source, threshold in told if source == HAND}
