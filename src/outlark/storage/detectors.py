"""A trained detector as a JSON header and arrays for a file, and back: the same segments to the last bit.

Defaults are written out, so that another version of outlark, with other defaults, still gives the same segments. After
reading, classes, frames and thresholds are derived again and compared, to find entries that do not belong together.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from outlark.detection.decode.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.detection.edges import LOOK, Edges
from outlark.detection.frame_level import FrameModel
from outlark.detection.model import DetectorModel
from outlark.detection.note_level import NoteModel
from outlark.detection.scorers import CLEAR_DB, SOUND_DB
from outlark.detection.second_stage import Embedding, SecondStage
from outlark.detection.thresholds import BINS, HAND, ClassCalibration
from outlark.errors import InputError, ModelFileError
from outlark.features.array import ArrayFrontEnd
from outlark.features.base import FrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.features.spectrum import check_count
from outlark.files.fields import NEWER, OLDER, Fields, decoded, encoded, put_kind, take_kind
from outlark.maths.description import describe
from outlark.storage import estimators
from outlark.storage.estimators import Sizes, Table, count, number, put, set_all, take

KIND = "NoteDetector"
DECISIONS = {"Decisions": Decisions}
FRONT_ENDS: dict[str, type[FrontEnd]] = {kind.__name__: kind for kind in (HLDSFrontEnd, NoteFrontEnd, ArrayFrontEnd)}
#: Front ends of earlier versions.
GONE = ("PatchFrontEnd",)
#: What the front end of series learns; the others learn nothing.
SERIES: Table = {
    "n_channels": ("n_channels_", count),
    "window_samples": ("window_samples_", count),
    "hop_samples": ("hop_samples_", count),
    "floor_s": ("floor_s_", number),
    "power": ("power_", "float k"),
    "mean": ("mean_", "float D"),
    "scale": ("scale_", "positive D"),
}
LAYOUT: Table = {
    "thresholds": ("thresholds", "float+inf C"),
    "shortest_s": ("shortest_s", "positive C"),
    "longest_s": ("longest_s", "positive C"),
    "note_thresholds": ("note_thresholds", "float+inf C optional"),
}
NOTES: Table = {
    "lengths": ("lengths", "positive L"),
    "allowed": ("allowed", "bool LC"),
    "thresholds": ("thresholds", "float+inf C"),
    "starts": ("starts", "float Ceb"),
    "ends": ("ends", "float Ceb"),
    "left_out_counts": ("left_out_counts", "int C"),
    "left_out": ("left_out", "float *"),
    "contrast_db": ("contrast_db", "float 1 optional"),
    "rejected_counts": ("rejected_counts", "int C optional"),
    "rejected": ("rejected", "float *d optional"),
}
#: The entries of each record and their types: of the calibration of a class, a note, and an ancestor of the model.
CALIBRATION = {
    "label": object, "prior": float, "threshold": float, "n_below": int, "n_above": int, "counts": list,
}  # fmt: skip
NOTE = {"recording": int, "name": str | None, "label": object, "start_s": float, "end_s": float, "sha256": str}
ANCESTOR = {"name": str, "sha256": str, "kept": int, "added": int, "negatives": int}
#: Entries that only some notes, and only some headers have.
OF_SOME_NOTES = {"low_hz": float, "high_hz": float, "clip": bool, "score": float}
OF_SOME = {"negatives", "lineage", "calibration"}
#: Most samples of these settings, so that no file can ask for all the memory there is.
MOST_SAMPLES = {"window_s": 2**18, "surroundings_s": 2**18, "lag_s": 2**22}
#: What wrong settings raise, one way or another, where they are used.
WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, MemoryError)
Arrays = dict[str, np.ndarray]
FindEmbedding = Callable[[dict[str, Any]], Embedding]


def state_of(detector: NoteDetector) -> tuple[dict[str, Any], Arrays]:
    """All that a trained detector knows, as strict JSON and arrays; an error for one that does not work."""
    if type(detector) is not NoteDetector:
        kinds = ", ".join(estimators.KINDS)
        raise InputError(f"{type(detector).__name__} cannot be saved; give a {KIND}, or one of {kinds}")
    check_is_fitted(detector)
    front_end = _put_front_end(detector.front_end_)
    class_model, class_model_arrays = estimators.state_of(detector.class_model_)
    detector.try_out()
    model, layout = detector.model_, detector.layout_
    header = {
        "kind": KIND,
        "classes": [encoded(label, "classes") for label in model.classes.tolist()],
        "sample_rate": int(layout.sample_rate),
        "frames": {"hop_samples": int(layout.hop_samples), "offset_samples": int(layout.offset_samples)},
        "gap_s": encoded(detector.gap_s, "gap_s"),
        "front_end": front_end.settings,
        "choice": list(model.choice),
        "describer": class_model,
        "decisions": put_kind(detector.decisions_, DECISIONS),
        "threshold_sources": model.threshold_sources,
        "training": _with_labels(model.training),
        "negatives": _with_labels(model.negatives),
        "lineage": [dict(ancestor) for ancestor in model.lineage],
        "calibration": _with_labels(
            {**{name: getattr(c, name) for name in CALIBRATION}, "counts": list(c.counts)} for c in model.calibration
        ),
    }
    header = {name: value for name, value in header.items() if value or name not in OF_SOME}
    arrays = _named("front_end", front_end.arrays) | _named("describer", class_model_arrays)
    arrays |= _named("layout", {name: getattr(layout, name) for name in LAYOUT})
    if model.second_stage is not None:
        header["second_stage"], more = _second_stage_state(model.second_stage)
        arrays |= _named("second_stage", more)
    if isinstance(model.first_stage, NoteModel):
        arrays |= _named("notes", _note_arrays(model.first_stage))
    return header, arrays


def from_state(header: dict[str, Any], arrays: Arrays, embedding: FindEmbedding | None = None) -> NoteDetector:
    """The detector that `state_of` was given. It takes the arrays over; `embedding` finds one by its identity."""
    if header.get("kind") in list(estimators.KINDS):  # a list, because what stands there may be anything
        raise ModelFileError(
            f"it holds a class model alone ({header['kind']}), which takes no sound; read it with "
            f"outlark.load_estimator, or give the file of a {KIND}"
        )
    if header.get("kind") != KIND:
        raise ModelFileError(f"it holds a {header.get('kind')!r:.100}, not a {KIND}; {NEWER}")
    try:
        detector = _detector(header, arrays, embedding)
        again, arrays_again = state_of(detector)
        for name in ("classes", "frames", "threshold_sources"):
            _check_same(name, header[name], again[name])
        _check_same("thresholds", *(held["layout/thresholds"].tolist() for held in (arrays, arrays_again)))
    except ModelFileError:
        raise
    except KeyError as error:
        raise ModelFileError(f"it has no {error}: {OLDER}") from None
    except WRONG as error:
        raise ModelFileError(f"the detector is damaged: {error!s:.300}; save it again") from None
    return detector


def _check_same(name: str, found: Any, fitting: Any) -> None:
    _require(found == fitting, f"its {name} are {found!r:.100}, but the rest of the file gives {fitting!r:.100}")


def _named(prefix: str, arrays: Mapping[str, Any]) -> Arrays:
    return {f"{prefix}/{name}": array for name, array in arrays.items() if array is not None}


def _part(arrays: Arrays, prefix: str) -> Fields:
    found = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return Fields({}, found)


def _require(fits: Any, found: str) -> None:
    if not fits:
        raise ModelFileError(f"{found}; save the model again")


def _detector(header: dict[str, Any], arrays: Arrays, embedding: FindEmbedding | None) -> NoteDetector:
    class_model = estimators.from_state(header["describer"], _part(arrays, "describer/").arrays)
    front_end = _front_end(header, _part(arrays, "front_end/").arrays, class_model.n_features_in_)
    model = _model(header, arrays, front_end, class_model, embedding)
    detector = NoteDetector(
        None if model.choice else clone(front_end),  # it chose its own settings, and will do so again
        None if "notes/contrast_db" in arrays else clone(class_model),
        take_kind(header["decisions"], DECISIONS, "way to decide"),
        gap_s=decoded(header["gap_s"], "gap_s"),
        embedding=None if model.second_stage is None else model.second_stage.embedding,
    )
    detector.model_ = model
    return detector


# -------------------------------------------------------------------- front ends


def _put_front_end(front_end: FrontEnd) -> Fields:
    fields = Fields(put_kind(front_end, FRONT_ENDS), {})
    _check_size(front_end, front_end.sample_rate_)
    if isinstance(front_end, ArrayFrontEnd):
        put(fields, partial(getattr, front_end), SERIES)
    return fields


def _front_end(header: dict[str, Any], arrays: Arrays, width: int) -> FrontEnd:
    """`width` is the number of features that the class model takes."""
    settings, sample_rate = header["front_end"], header["sample_rate"]
    if isinstance(settings, dict) and settings.get("kind") in GONE:
        raise ModelFileError(f"it was trained with {settings['kind']}, which outlark no longer has; train it again")
    front_end = take_kind(settings, FRONT_ENDS, "front end")
    _check_size(front_end, ArrayFrontEnd.check_rate(sample_rate))
    # at note level before fitting, which may take much memory
    found = front_end.n_slices * front_end.n_bands if isinstance(front_end, NoteFrontEnd) else None
    if isinstance(front_end, ArrayFrontEnd):
        _take_series(Fields(dict(settings), arrays), front_end, sample_rate)
    elif found in (None, width):
        front_end.fit([], sample_rate)
    found = front_end.n_features_ if found is None else found
    kind = type(front_end).__name__
    _require(found == width, f"its {kind} gives {found!r:.100} features, but its class model takes {width}")
    return cast("FrontEnd", front_end)


def _check_size(front_end: FrontEnd, sample_rate: int) -> None:
    """Refuse what would take more memory than a front end ever needs."""
    for name, most in MOST_SAMPLES.items():
        value = getattr(front_end, name, None)
        if isinstance(value, Real) and float(value) * sample_rate > most:
            raise InputError(f"{name}={value!r:.100} is more than {most} samples, too many to keep; give less")
    for name in ("n_slices", "n_bands"):
        check_count(name, getattr(front_end, name, 1))


def _take_series(fields: Fields, front_end: ArrayFrontEnd, sample_rate: Any) -> None:
    front_end._check_settings()
    n_channels = count(fields.value("n_channels"))
    found = take(fields, SERIES, {"k": n_channels, "D": n_channels * (2 + front_end.n_bands)})
    window, hop, floor_s = (found.pop(f"{name}_") for name in ("window_samples", "hop_samples", "floor_s"))
    possible = hop <= window <= MOST_SAMPLES["window_s"]
    _require(possible, f"its windows of {window} samples, one every {hop}, cannot be")
    set_all(front_end, found)
    front_end.sample_rate_, front_end.n_features_ = front_end.check_rate(sample_rate), len(front_end.mean_)
    front_end._set_samples(window, hop, float(floor_s))


# ------------------------------------------------------------------------- model


def _model(
    header: dict[str, Any], arrays: Arrays, front_end: FrontEnd, class_model: Any, embedding: FindEmbedding | None
) -> DetectorModel:
    classes, sources = class_model.classes_.tolist(), header["threshold_sources"]
    fits = isinstance(sources, list) and len(sources) == len(classes)  # what they are is compared afterwards
    _require(fits, f"its thresholds come from {sources!r:.100}, not from one source for each class")
    sizes = {"C": len(classes), "d": class_model.n_features_in_}
    layout = take(_part(arrays, "layout/"), LAYOUT, sizes)
    stage: NoteModel | FrameModel
    if isinstance(front_end, NoteFrontEnd):
        stage = _note_model(front_end, class_model, _part(arrays, "notes/"), sizes)
    else:
        stage = FrameModel(front_end=front_end, class_model=class_model, note_thresholds=layout["note_thresholds"])
    by_hand, choice = [source == HAND for source in sources], header["choice"]
    sentences = isinstance(choice, list) and all(isinstance(sentence, str) for sentence in choice)
    _require(sentences, f"its choice of a front end is {choice!r:.100}, not sentences")
    return DetectorModel(
        first_stage=stage,
        shortest_s=layout["shortest_s"],
        longest_s=layout["longest_s"],
        second_stage=_second_stage(header.get("second_stage"), _part(arrays, "second_stage/"), classes, embedding),
        calibration=_calibration(header.get("calibration", []), classes),
        by_hand={c: t for c, hand, t in zip(classes, by_hand, layout["thresholds"].tolist(), strict=True) if hand},
        training=_notes(header["training"], classes),
        negatives=_notes(header.get("negatives", []), classes),
        lineage=_records(header.get("lineage", []), ANCESTOR, "model that it was trained from"),
        choice=choice,
    )


def _note_model(front_end: NoteFrontEnd, class_model: Any, fields: Fields, sizes: Sizes) -> NoteModel:
    found = take(fields, NOTES, {**sizes, "b": front_end.n_bands, "1": 1})
    left_out, n_spectra, rejected = _split(found, "left_out"), found["starts"].shape[1], None
    _require(n_spectra in (LOOK + 1, 2 * LOOK + 1), f"array 'starts' has {n_spectra} spectra")
    in_order = all((np.diff(scores) >= 0.0).all() for scores in left_out)
    _require(in_order, "array 'left_out' must hold the scores of each class in order")
    contrast_db = None if found["contrast_db"] is None else float(found["contrast_db"][0])
    fits = contrast_db is None or SOUND_DB <= contrast_db <= CLEAR_DB
    _require(fits, f"array 'contrast_db' is {contrast_db}, not {SOUND_DB:g} to {CLEAR_DB:g}")
    both = (found["rejected"] is None) == (found["rejected_counts"] is None)
    _require(both, "of the arrays 'rejected' and 'rejected_counts', one is missing")
    if found["rejected"] is not None:
        pairs = zip(_split(found, "rejected"), class_model.descriptions_, strict=True)
        rejected = [describe(X, own.ell, own.ratio) if len(X) else None for X, own in pairs]
    return NoteModel(
        front_end=front_end,
        class_model=class_model,
        lengths=found["lengths"],
        allowed=found["allowed"],
        thresholds=found["thresholds"],
        edges=Edges(found["starts"], found["ends"]),
        left_out=left_out,
        contrast_db=contrast_db,
        rejected=rejected,
    )


def _note_arrays(model: NoteModel) -> dict[str, Any]:
    assert model.edges is not None
    arrays = {name: getattr(model, name) for name in ("lengths", "allowed", "thresholds")} | vars(model.edges)
    arrays |= _joined("left_out", [scores.astype(float) for scores in model.left_out])
    if model.rejected is not None:
        none = np.empty((0, model.class_model.n_features_in_))
        arrays |= _joined("rejected", [none if d is None else d.X for d in model.rejected])
    return arrays | {"contrast_db": None if model.contrast_db is None else np.array([model.contrast_db])}


def _joined(name: str, of_classes: list[np.ndarray]) -> Arrays:
    counts = np.array([len(rows) for rows in of_classes], dtype=np.int64)
    return {name: np.concatenate(of_classes), f"{name}_counts": counts}


def _split(found: Arrays, name: str) -> list[np.ndarray]:
    joined, counts = found[name], found[f"{name}_counts"].tolist()
    fits = min(counts) >= 0 and sum(counts) == len(joined)
    _require(fits, f"array {name!r} holds {len(joined)} rows, but '{name}_counts' is {counts!s:.100}")
    return np.split(joined, np.cumsum(counts)[:-1])


def _second_stage_state(stage: SecondStage) -> tuple[dict[str, Any], Arrays]:
    described, arrays = estimators.state_of(stage.class_model)
    identity = stage.identity
    embedding = {**identity, "parameters": encoded(identity["parameters"], "parameters of the embedding")}
    return {"embedding": embedding, "threshold": stage.threshold, "describer": described}, arrays


def _second_stage(
    found: Any, fields: Fields, classes: list[Any], embedding: FindEmbedding | None
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
    class_model = estimators.from_state(found.get("describer"), fields.arrays)
    _require(class_model.classes_.tolist() == classes, "its two stages know different classes")
    return SecondStage(embedding=made, class_model=cast("Any", class_model), threshold=threshold)


# ----------------------------------------------------------------------- records


def _with_labels(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "label": encoded(row["label"], "label")} for row in rows]


def _records(found: Any, types: Mapping[str, Any], one: str, more: Mapping[str, Any] = {}) -> list[Any]:
    """A list of dicts, once every entry is found to be of its type; in the order of the types."""
    kinds = {**types, **more}
    _require(isinstance(found, list), f"instead of a list, each of a {one}, it has {found!r:.100}")
    for row in found:
        fits = isinstance(row, dict) and types.keys() <= row.keys() <= kinds.keys()
        of_type = fits and all(isinstance(v, kinds[k]) and (v is not True or kinds[k] is bool) for k, v in row.items())
        _require(of_type, f"a {one} is {row!r:.200}, which is not valid")
    return [{name: row[name] for name in kinds if name in row} for row in found]


def _notes(found: Any, classes: list[Any]) -> list[dict[str, Any]]:
    rows = _records(found, NOTE, "training note", OF_SOME_NOTES)
    rows = [{**row, "label": decoded(row["label"], "label")} for row in rows]
    for row in rows:
        _require(row["label"] in classes, f"a training note is {row!r:.200}, of no class")
    return rows


def _calibration(found: Any, classes: list[Any]) -> tuple[ClassCalibration, ...]:
    rows = _records(found, CALIBRATION, "calibration of a class")
    labels = [decoded(row["label"], "label") for row in rows]
    _require(labels in ([], classes), f"its calibration is of {labels!r:.100}")
    for row in rows:
        fits = len(row["counts"]) == len(BINS) - 1 and row["prior"] > 0.0
        _require(fits, f"the calibration of a class is {row!r:.200}, which is not valid")
    return tuple(
        ClassCalibration(**{**row, "label": label, "counts": tuple(row["counts"])})
        for row, label in zip(rows, labels, strict=True)
    )
