"""A trained detector, or an estimator, in one file: everything needed to give the same answers again.

Numbers and text only (`files.container`): nothing in a file is executed, and it chooses among the classes listed here
by name. Defaults are written out, so that another version of outlark, with other defaults, gives the same segments.
Tables (`files.fields`) list what is stored of each class.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from numbers import Real
from types import NoneType
from typing import Any, cast

import numpy as np
import scipy
import sklearn
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from outlark.detection.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.detection.edges import LOOK, Edges
from outlark.detection.model import DetectorModel, NoteModel
from outlark.detection.scorer import MAX_CONTRAST_DB, SOUND_DB
from outlark.detection.second_stage import Embedding, SecondStage, identity_of
from outlark.detection.thresholds import PEAK_BINS, SET_BY_HAND, ClassCalibration
from outlark.embeddings import BirdNET
from outlark.errors import InputError, ModelFileError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.open_set import check_count, check_outlier_label
from outlark.estimators.pknn import PKNN, Eta, Prototypes
from outlark.estimators.training import Size
from outlark.features.array import ArrayFrontEnd
from outlark.features.base import FrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.files.container import about, read, write
from outlark.files.fields import NEWER, OLDER, Fields, Table, decoded, encoded, put_kind, require, take_kind
from outlark.maths.choice import ChoiceTrial
from outlark.maths.description import Description, describe
from outlark.maths.landmarks import LandmarkDescription
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector, FrameModel
from outlark.version import __version__

Arrays = dict[str, np.ndarray]
KIND = "NoteDetector"
#: The classes that a file may name.
CLASS_MODELS: dict[str, type[MDDKM] | type[PKNN]] = {"MDDKM": MDDKM, "PKNN": PKNN}
FRONT_ENDS: dict[str, type[FrontEnd]] = {kind.__name__: kind for kind in (HLDSFrontEnd, NoteFrontEnd, ArrayFrontEnd)}
DECISIONS: dict[str, type[Decisions]] = {"Decisions": Decisions, "Rules": Rules}
EMBEDDINGS = {"outlark.embeddings.BirdNET": BirdNET}
#: Most samples of these settings, so that no file can ask for all the memory there is.
MOST_SAMPLES = {"window_s": 2**18, "surroundings_s": 2**18, "lag_s": 2**22}
#: What wrong settings raise, one way or another, where they are used.
WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, MemoryError)
#: Entries of a header that only some detectors have, and those that scores do not depend on.
OF_SOME = {"negatives", "lineage", "calibration"}
NOT_SCORING = {"choice", "decisions", "threshold_sources", "training", *OF_SOME}


def number(found: Any) -> Any:
    """A finite number above 0."""
    if isinstance(found, str | bool) or not 0.0 < float(found) < np.inf:
        raise ValueError
    return found


def count(found: Any) -> int:
    """A whole number above 0."""
    if type(found) is not int or found < 1:
        raise ValueError
    return found


def one_of(*values: Any) -> Callable[[Any], Any]:
    """One of these, and of the same type."""
    return lambda found: {(type(value), value): value for value in values}[type(found), found]


def rows_of(kind: Callable[[list[Any]], Any], *types: Any) -> Callable[[Any], list[Any]]:
    """A list of rows, each with entries of these types."""

    def made(found: list[list[Any]]) -> list[Any]:
        if not all(isinstance(v, t) for row in found for v, t in zip(row, types, strict=True)):
            raise TypeError
        return [kind(row) for row in found]

    return made


COMMON: Table = {
    "classes": ("classes_", "label C"),
    "n_features": ("n_features_in_", count),
    "thresholds": ("thresholds_", "float+inf C"),
}
NAMES: Table = {"feature_names": ("feature_names_in_", lambda names: np.array([*map(str, names)], dtype=object))}
SCALAR = (str, Real, NoneType)
OF_MDDKM: Table = {
    "sigma": ("sigma_", number),
    "length_scale": ("length_scale_", number),
    "sigma_reg": ("sigma_reg_", number),
    "metric": ("metric_", one_of("euclidean", "within", "whiten")),
    "ratio": ("_ratio", lambda found: None if found is None else number(found)),
    "reference_size": ("reference_size_", lambda found: Size(*map(count, found))),
    "trials": ("trials_", rows_of(ChoiceTrial._make, str, Real, Real)),
    "trimmed": ("trimmed_", rows_of(tuple, SCALAR, SCALAR)),
    "feature_map": ("feature_map_", "float d|dd"),
    "origin": ("_origin", "float d"),
    "size_factors": ("size_factors_", "float C"),
}
#: Descriptions of a class, exact and with landmarks.
EXACT: Table = {
    "X": ("X", "float nd"),
    "ell": ("ell", number),
    "ratio": ("ratio", number),
    "center": ("center", one_of(True, False)),
    "L_inv": ("L_inv", "triangle n"),
}
LANDMARKS: Table = EXACT | {
    "landmarks": ("landmarks", "int m<n"),
    "L_inv": ("L_inv", "triangle m"),
    "W": ("W", "triangle m"),
    "W_ones": ("W_ones", "float m"),
    "residuals": ("residuals", "float n"),
}
PROTOTYPES: Table = {
    "points": ("points", "float Pd"),
    "owners": ("owners", "int P<C"),
    "fuzzy_labels": ("labels", "float PC"),
}
ETA: Table = {
    "eta_shift": ("shift", lambda found: found if found == 0.0 else number(found)),
    "eta_scale": ("scale", number),
}
#: Lists with an entry for each class.
LISTS: dict[type, Table] = {
    PKNN: {
        "left_out_scores": ("left_out_scores_", "float *"),
        "left_out_note_scores": ("left_out_note_scores_", "float *"),
    },
    MDDKM: {
        "left_out_scores": ("left_out_scores_", "float n?"),
        "left_out_note_scores": ("left_out_note_scores_", "float *"),
        "notes": ("notes_", "label n"),
        "together": ("_together", "label n"),
    },
}
#: What front ends learn from recordings; those that are not listed learn nothing.
LEARNT: dict[type, Table] = {
    ArrayFrontEnd: {
        "n_channels": ("n_channels_", count),
        "window_samples": ("window_samples_", count),
        "hop_samples": ("hop_samples_", count),
        "floor_s": ("floor_s_", number),
        "power": ("power_", "float k"),
        "mean": ("mean_", "float D"),
        "scale": ("scale_", "positive D"),
    }
}
LAYOUT: Table = {
    "thresholds": ("thresholds", "float+inf C"),
    "shortest_s": ("shortest_s", "positive C"),
    "longest_s": ("longest_s", "positive C"),
    "note_thresholds": ("mean_thresholds", "float+inf C optional"),
}
NOTES: Table = {
    "lengths": ("lengths", "positive L"),
    "allowed": ("allowed", "bool LC"),
    "thresholds": ("spectral_thresholds", "float+inf C"),
    "starts": ("starts", "float Ceb"),
    "ends": ("ends", "float Ceb"),
    "left_out_counts": ("left_out_counts", "int C"),
    "left_out": ("left_out", "float *"),
    "contrast_db": ("contrast_db", "float 1"),
    "rejected_counts": ("rejected_counts", "int C optional"),
    "rejected": ("rejected", "float *d optional"),
}
#: The entries of each record and their types: of the calibration of a class, a note, and an ancestor of the model.
CALIBRATION = {
    "label": object, "prior": float, "threshold": float, "n_below": int, "n_above": int, "counts": list,
}  # fmt: skip
NOTE = {"recording": int, "name": str | None, "label": object, "start_s": float, "end_s": float, "sha256": str}
#: Entries that only some notes have.
OF_SOME_NOTES = {"low_hz": float, "high_hz": float, "clip": bool, "score": float}
ANCESTOR = {"name": str, "sha256": str, "kept": int, "added": int, "negatives": int}


def save(model: NoteDetector | MDDKM | PKNN, path: str | os.PathLike[str]) -> None:
    """Write a trained model to a file; the same model gives the same bytes.

    Parameters
    ----------
    model : NoteDetector, MDDKM or PKNN, fitted
        A detector with one of outlark's front ends and `MDDKM` or `PKNN` as class model, for `load`; or one of these
        estimators by itself, for `load_estimator`.
    path : str or path
        The folder must exist. An existing file is replaced in one step, once the new one is safe on disk; if that
        fails, it is still there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from outlark.data.synthetic import SAMPLE_RATE, notes
    >>> known = notes(counts={"tuti-F": 3, "cach-Z": 3})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> with TemporaryDirectory() as folder:
    ...     save(detector, f"{folder}/titmouse.outlark")
    ...     again = load(f"{folder}/titmouse.outlark")
    >>> again.classes_.tolist(), again.model_.training[0]["label"]
    (['cach-Z', 'tuti-F'], 'tuti-F')
    """
    estimator = type(model) in CLASS_MODELS.values()
    header, arrays = estimator_state(model) if estimator else detector_state(model)
    libraries = {module.__name__: module.__version__ for module in (np, scipy)}
    versions = {"outlark": __version__, **libraries, "scikit-learn": sklearn.__version__}
    write(path, {**header, "versions": versions}, arrays)


def load(path: str | os.PathLike[str], embedding: Embedding | None = None) -> NoteDetector:
    """The detector that was saved: with the same libraries, its scores and segments are the same to the last bit.

    Parameters
    ----------
    path : str or path
    embedding : callable, optional
        The one that the model was trained with, unless it is BirdNET; a file holds its name and version, not its code.

    Returns
    -------
    NoteDetector
        With the parameters that were used, including those left to the defaults.
    """
    header, arrays = read(path)
    with about(path, "read", "save the model again"):
        return detector_from(header, arrays, embedding)


def load_estimator(path: str | os.PathLike[str]) -> MDDKM | PKNN:
    """The estimator that was saved: with the same libraries, its scores are the same to the last bit.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> model = MDDKM(outlier_label="?").fit([[0.0], [0.2], [5.0], [5.1]], ["a", "a", "b", "b"])
    >>> with TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/two.outlark")
    ...     again = load_estimator(f"{folder}/two.outlark")
    >>> again.predict([[0.1], [5.0], [99.0]]).tolist()
    ['a', 'b', '?']
    """
    header, arrays = read(path)
    with about(path, "read", "save the model again"):
        if header.get("kind") == KIND:
            raise ModelFileError(f"it holds a {KIND}; read it with outlark.load, and take its class_model_")
        return estimator_from(header, arrays)


def scoring_sha256(detector: NoteDetector) -> str:
    """Identifies all of a detector that scores depend on: the same whatever its thresholds and decisions."""
    header, arrays = detector_state(detector)
    kept = {name: value for name, value in header.items() if name not in NOT_SCORING}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        if name != "layout/thresholds":
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# -------------------------------------------------------------------- estimators


def estimator_state(model: Any) -> tuple[dict[str, Any], Arrays]:
    """All that a fitted `MDDKM` or `PKNN` knows, as strict JSON and copies of its arrays."""
    fields, own = Fields(put_kind(model, CLASS_MODELS), {}), partial(getattr, model)
    check_is_fitted(model)
    model._check_parameters()  # they may have been set since
    fields.put(COMMON | NAMES if hasattr(model, "feature_names_in_") else COMMON, own)
    if isinstance(model, MDDKM):
        fields.put(OF_MDDKM, own)
        for c, description in enumerate(model.descriptions_):
            table = LANDMARKS if isinstance(description, LandmarkDescription) else EXACT
            fields.put(table, partial(getattr, description), f"{c}/")
    else:
        fields.put(PROTOTYPES, partial(getattr, model._model))
        fields.put(ETA, partial(getattr, model._model.eta))
    for c in range(len(model.classes_)):
        fields.put(LISTS[type(model)], partial(_of_class, model, c), f"{c}/")
    return fields.settings, fields.arrays


def _of_class(model: Any, c: int, attribute: str) -> Any:
    return getattr(model, attribute)[c]


def estimator_from(settings: Any, arrays: Arrays) -> MDDKM | PKNN:
    """The estimator that `estimator_state` was given. It takes the arrays over."""
    try:
        model = take_kind(settings, CLASS_MODELS, "model")
        _take_estimator(Fields(settings, arrays), model)
        model._check_parameters()
        check_outlier_label(model.outlier_label, model.classes_)
    except ModelFileError:
        raise
    except WRONG as error:
        raise ModelFileError(f"the model is damaged: {error!s:.300}; save it again") from None
    return model


def _take_estimator(fields: Fields, model: Any) -> None:
    sizes: dict[str, int] = {}
    named = "feature_names" in fields.settings["values"]
    _set(model, fields.take(COMMON | NAMES if named else COMMON, sizes))
    classes, sizes["d"] = model.classes_.tolist(), model.n_features_in_
    require(len(set(classes)) == len(classes), f"the classes {classes!r:.100} are not distinct")
    require(not named or len(model.feature_names_in_) == sizes["d"], f"feature_names must be {sizes['d']} names")
    of_classes = [dict(sizes) for _ in classes]
    if isinstance(model, MDDKM):
        _set(model, fields.take(OF_MDDKM, sizes))
        model.descriptions_ = [_description(fields, own, f"{c}/") for c, own in enumerate(of_classes)]
    else:
        model._model = Prototypes(**fields.take(PROTOTYPES, sizes), eta=Eta(**fields.take(ETA, sizes)))
        model.prototypes_, owners, model.fuzzy_labels_, model.eta_ = model._model
        model.prototype_labels_ = model.classes_[owners]
    found = [fields.take(LISTS[type(model)], own, f"{c}/") for c, own in enumerate(of_classes)]
    _set(model, {name: [of_class[name] for of_class in found] for name in found[0]})


def _set(model: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(model, name, value)


def _description(fields: Fields, sizes: dict[str, int], prefix: str) -> Description | LandmarkDescription:
    if not any(prefix + name in fields.arrays for name in LANDMARKS.keys() - EXACT.keys()):
        return Description(**fields.take(EXACT, sizes, prefix))
    sizes["m"] = fields.array(f"{prefix}landmarks", None, kind="i").size
    return LandmarkDescription(**fields.take(LANDMARKS, sizes, prefix))


# --------------------------------------------------------------------- detectors


def detector_state(detector: Any) -> tuple[dict[str, Any], Arrays]:
    """All that a trained detector knows, as strict JSON and arrays; an error for one that does not work."""
    if type(detector) not in (NoteDetector, FrameDetector):
        kinds = ", ".join(CLASS_MODELS)
        raise InputError(f"{type(detector).__name__} cannot be saved; give a {KIND}, or one of {kinds}")
    check_is_fitted(detector)
    front_end = detector.front_end_
    fields = Fields(put_kind(front_end, FRONT_ENDS), {})
    fields.put(LEARNT.get(type(front_end), {}), partial(getattr, front_end))
    class_model, of_class_model = estimator_state(detector.class_model_)
    detector._check_parameters()  # they may have been set since
    detector.try_out()
    model, layout = detector.model_, detector.layout_
    header = {
        "kind": KIND,
        "classes": _encoded_classes(detector),
        "sample_rate": int(layout.sample_rate),
        "frames": _frames(detector),
        "gap_s": encoded(detector.gap_s, "gap_s"),
        "front_end": fields.settings,
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
    arrays = _named("front_end", fields.arrays) | _named("describer", of_class_model)
    arrays |= _named("layout", {name: getattr(layout, attribute) for name, (attribute, _) in LAYOUT.items()})
    if model.second_stage is not None:
        header["second_stage"], more = _second_stage_state(model.second_stage)
        arrays |= _named("second_stage", more)
    if isinstance(model, NoteModel):
        arrays |= _named("notes", _note_arrays(model))
    return header, arrays


def detector_from(header: dict[str, Any], arrays: Arrays, embedding: Embedding | None = None) -> NoteDetector:
    """The detector that `detector_state` was given. It takes the arrays over."""
    kind = header.get("kind")
    if isinstance(kind, str) and kind in CLASS_MODELS:
        raise ModelFileError(
            f"it holds a class model alone ({kind}), which takes no sound; read it with outlark.load_estimator, or "
            f"give the file of a {KIND}"
        )
    if kind != KIND:
        raise ModelFileError(f"it holds a {kind!r:.100}, not a {KIND}; {NEWER}")
    try:
        detector = _detector(header, arrays, embedding)
        detector.try_out()
        _check_derived(detector, header, arrays)
    except ModelFileError:
        raise
    except KeyError as error:
        raise ModelFileError(f"it has no {error}: {OLDER}") from None
    except WRONG as error:
        raise ModelFileError(f"the detector is damaged: {error!s:.300}; save it again") from None
    return detector


def _detector(header: dict[str, Any], arrays: Arrays, embedding: Embedding | None) -> NoteDetector:
    class_model = estimator_from(header["describer"], _part(arrays, "describer/"))
    front_end = _front_end(header, _part(arrays, "front_end/"), class_model.n_features_in_)
    model = _model(header, arrays, front_end, class_model, embedding)
    decisions = _decisions(header["decisions"], model.level)
    detector: NoteDetector
    if isinstance(model, NoteModel):
        given = None if model.choice else clone(model.front_end)  # it chose its own settings, and will do so again
        embedding = None if model.second_stage is None else model.second_stage.embedding
        detector = NoteDetector(given, decisions, embedding=embedding)
    else:
        gap_s = decoded(header["gap_s"], "gap_s")
        detector = FrameDetector(clone(front_end), clone(class_model), cast("Rules", decisions), gap_s=gap_s)
    detector.model_ = model
    detector._check_parameters()
    return detector


def _decisions(found: Any, level: str) -> Decisions:
    """Files of earlier versions have one kind of decisions for both levels, with the name of a decoder."""
    if isinstance(found, dict) and isinstance(found.get("parameters"), dict) and "decoder" in found["parameters"]:
        kind = Rules if level == "frame" else Decisions
        kept = kind().get_params(deep=False).keys()
        require(found["parameters"]["decoder"] != "viterbi", f"it decides by Viterbi, which is gone: {OLDER}")
        found = {"kind": kind.__name__, "parameters": {k: v for k, v in found["parameters"].items() if k in kept}}
    return take_kind(found, DECISIONS, "way to decide")


def _check_derived(detector: NoteDetector, header: dict[str, Any], arrays: Arrays) -> None:
    """What follows from the rest of the file must be what the file says, or other code would give other results."""
    for name, found, fitting in (
        ("classes", header["classes"], _encoded_classes(detector)),
        ("frames", header["frames"], _frames(detector)),
        ("threshold_sources", header["threshold_sources"], detector.model_.threshold_sources),
        ("thresholds", arrays["layout/thresholds"].tolist(), detector.layout_.thresholds.tolist()),
    ):
        require(found == fitting, f"its {name} are {found!r:.100}, but the rest of the file gives {fitting!r:.100}")


def _encoded_classes(detector: NoteDetector) -> list[Any]:
    return [encoded(label, "classes") for label in detector.classes_.tolist()]


def _frames(detector: NoteDetector) -> dict[str, int]:
    return {name: int(getattr(detector.layout_, name)) for name in ("hop_samples", "offset_samples")}


def _named(prefix: str, arrays: Mapping[str, Any]) -> Arrays:
    return {f"{prefix}/{name}": array for name, array in arrays.items() if array is not None}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _front_end(header: dict[str, Any], arrays: Arrays, width: int) -> FrontEnd:
    """Fitted; `width` is the number of features that the class model takes."""
    settings, kind = header["front_end"], header["front_end"] and header["front_end"].get("kind")
    front_end = cast("FrontEnd", take_kind(settings, FRONT_ENDS, "front end"))
    rate = front_end.check_rate(header["sample_rate"])
    parameters = front_end.get_params()
    _check_memory(parameters, rate)
    # at note level before fitting, which may take much memory
    found = parameters["n_slices"] * parameters["n_bands"] if front_end.note_level else None
    if type(front_end) in LEARNT:
        _take_series(Fields(settings, arrays), cast("ArrayFrontEnd", front_end), rate)
    elif found in (None, width):
        front_end.fit([], rate)
    found = front_end.n_features_ if found is None else found
    require(found == width, f"its {kind} gives {found!r:.100} features, but its class model takes {width}")
    return front_end


def _check_memory(parameters: dict[str, Any], sample_rate: int) -> None:
    """Refuse what would take more memory than a front end ever needs."""
    for name in parameters.keys() & MOST_SAMPLES.keys():
        value, most = parameters[name], MOST_SAMPLES[name]
        if isinstance(value, Real) and float(value) * sample_rate > most:
            raise InputError(f"{name}={value!r:.100} is more than {most} samples, too many to keep; give less")
    for name in parameters.keys() & {"n_slices", "n_bands"}:
        check_count(name, parameters[name])


def _take_series(fields: Fields, front_end: ArrayFrontEnd, sample_rate: int) -> None:
    front_end._check_settings()
    n_channels = len(fields.array("power", None))
    table = LEARNT[ArrayFrontEnd]
    found = fields.take(table, {"k": n_channels, "D": n_channels * (2 + front_end.n_bands)})
    window, hop, floor_s = (found.pop(f"{name}_") for name in ("window_samples", "hop_samples", "floor_s"))
    fits = hop <= window <= MOST_SAMPLES["window_s"] and found["n_channels_"] == n_channels
    require(fits, f"its windows of {window} samples, one every {hop}, of {found['n_channels_']} channels, cannot be")
    _set(front_end, {**found, "sample_rate_": sample_rate, "n_features_": len(found["mean_"])})
    front_end._set_samples(window, hop, float(floor_s))


def _model(
    header: dict[str, Any], arrays: Arrays, front_end: FrontEnd, class_model: Any, embedding: Embedding | None
) -> DetectorModel:
    classes, sources, choice = class_model.classes_.tolist(), header["threshold_sources"], header["choice"]
    fits = isinstance(sources, list) and len(sources) == len(classes)  # what they are is compared afterwards
    require(fits, f"its thresholds come from {sources!r:.100}, not from one source for each class")
    sentences = isinstance(choice, list) and all(isinstance(sentence, str) for sentence in choice)
    require(sentences, f"its choice of a front end is {choice!r:.100}, not sentences")
    sizes = {"C": len(classes), "d": class_model.n_features_in_, "1": 1}
    layout = Fields({}, _part(arrays, "layout/")).take(LAYOUT, sizes)
    in_use = zip(classes, sources, layout["thresholds"].tolist(), strict=True)
    kind: type[DetectorModel] = NoteModel if front_end.note_level else FrameModel
    own: dict[str, Any] = {"mean_thresholds": layout["mean_thresholds"]}
    if front_end.note_level:
        own = _note_fields(cast("NoteFrontEnd", front_end), class_model, _part(arrays, "notes/"), sizes)
    return kind(
        front_end=front_end,
        class_model=class_model,
        **own,
        shortest_s=layout["shortest_s"],
        longest_s=layout["longest_s"],
        second_stage=_second_stage(header.get("second_stage"), _part(arrays, "second_stage/"), classes, embedding),
        calibration=_calibration(header.get("calibration", []), classes),
        by_hand={label: threshold for label, source, threshold in in_use if source == SET_BY_HAND},
        training=_notes(header["training"], classes),
        negatives=_notes(header.get("negatives", []), classes),
        lineage=_records(header.get("lineage", []), ANCESTOR, "model that it was trained from"),
        choice=choice,
    )


def _note_fields(front_end: NoteFrontEnd, class_model: Any, arrays: Arrays, sizes: dict[str, int]) -> dict[str, Any]:
    found = Fields({}, arrays).take(NOTES, {**sizes, "b": front_end.n_bands})
    left_out, n_spectra, contrast_db = _split(found, "left_out"), found["starts"].shape[1], found["contrast_db"]
    require(n_spectra in (LOOK + 1, 2 * LOOK + 1), f"array 'starts' has {n_spectra} spectra")
    in_order = all((np.diff(scores) >= 0.0).all() for scores in left_out)
    require(in_order, "array 'left_out' must hold the scores of each class in order")
    fits = SOUND_DB <= contrast_db[0] <= MAX_CONTRAST_DB
    require(fits, f"array 'contrast_db' is {contrast_db}, not {SOUND_DB:g} to {MAX_CONTRAST_DB:g}")
    both = (found["rejected"] is None) == (found["rejected_counts"] is None)
    require(both, "of the arrays 'rejected' and 'rejected_counts', one is missing")
    rejected = None
    if found["rejected"] is not None:
        pairs = zip(_split(found, "rejected"), class_model.descriptions_, strict=True)
        rejected = [describe(X, own.ell, own.ratio) if len(X) else None for X, own in pairs]
    return {
        "edges": Edges(found["starts"], found["ends"]),
        "left_out": left_out,
        "contrast_db": float(contrast_db[0]),
        "rejected": rejected,
        **{name: found[name] for name in ("lengths", "allowed", "spectral_thresholds")},
    }


def _note_arrays(model: NoteModel) -> dict[str, Any]:
    assert model.edges is not None
    arrays = {"lengths": model.lengths, "allowed": model.allowed, "thresholds": model.spectral_thresholds}
    arrays |= vars(model.edges)
    arrays |= _joined("left_out", [scores.astype(float) for scores in model.left_out])
    if model.rejected is not None:
        none = np.empty((0, model.class_model.n_features_in_))
        arrays |= _joined("rejected", [none if d is None else d.X for d in model.rejected])
    return arrays | {"contrast_db": np.array([model.contrast_db])}


def _joined(name: str, of_classes: list[np.ndarray]) -> Arrays:
    counts = np.array([len(rows) for rows in of_classes], dtype=np.int64)
    return {name: np.concatenate(of_classes), f"{name}_counts": counts}


def _split(found: Arrays, name: str) -> list[np.ndarray]:
    joined, counts = found[name], found[f"{name}_counts"].tolist()
    fits = min(counts) >= 0 and sum(counts) == len(joined)
    require(fits, f"array {name!r} holds {len(joined)} rows, but '{name}_counts' is {counts!s:.100}")
    return np.split(joined, np.cumsum(counts)[:-1])


# ------------------------------------------------------------------ second stage


def _second_stage_state(stage: SecondStage) -> tuple[dict[str, Any], Arrays]:
    described, arrays = estimator_state(stage.class_model)
    identity = stage.identity
    embedding = {**identity, "parameters": encoded(identity["parameters"], "parameters of the embedding")}
    return {"embedding": embedding, "threshold": stage.threshold, "describer": described}, arrays


def _second_stage(found: Any, arrays: Arrays, classes: list[Any], given: Embedding | None) -> SecondStage | None:
    match found:
        case None:
            return None
        case {
            "embedding": {"name": str(name), "version": str(version), "parameters": parameters},
            "threshold": float(threshold),
            "describer": settings,
        } if threshold > 0.0:
            embedding = _embedding(name, version, decoded(parameters, "parameters of the embedding"), given)
            class_model = estimator_from(settings, arrays)
            require(class_model.classes_.tolist() == classes, "its two stages know different classes")
            return SecondStage(embedding=embedding, class_model=cast("MDDKM", class_model), threshold=threshold)
    raise ModelFileError(f"its second stage is {found!r:.200}, which cannot be; save the model again")


def _embedding(name: str, version: str, parameters: Any, given: Embedding | None) -> Embedding:
    """The embedding of this name and version: the given one, or one of outlark's."""
    if given is None and name not in EMBEDDINGS:
        raise ModelFileError(
            f"it was trained with the embedding {name!r:.200}, which is not part of outlark; in Python, give it to "
            "load(path, embedding=…)"
        )
    found = EMBEDDINGS[name](**parameters) if given is None else given
    there = identity_of(found)
    if (there["name"], there["version"]) != (name, version):
        raise ModelFileError(
            f"it was trained with the embedding {name!r:.200}, version {version!r:.50}, but this is {there['name']!r}, "
            f"version {there['version']!r}, whose numbers mean something else; give that one, or train again"
        )
    return found


# ----------------------------------------------------------------------- records


def _with_labels(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "label": encoded(row["label"], "label")} for row in rows]


def _records(found: Any, types: Mapping[str, Any], one: str, more: Mapping[str, Any] = {}) -> list[Any]:
    """A list of dicts, once every entry is found to be of its type; in the order of the types."""
    kinds = {**types, **more}
    require(isinstance(found, list), f"instead of a list, each of a {one}, it has {found!r:.100}")
    for row in found:
        fits = isinstance(row, dict) and types.keys() <= row.keys() <= kinds.keys()
        of_type = fits and all(isinstance(v, kinds[k]) and (v is not True or kinds[k] is bool) for k, v in row.items())
        require(of_type, f"a {one} is {row!r:.200}, which is not valid")
    return [{name: row[name] for name in kinds if name in row} for row in found]


def _notes(found: Any, classes: list[Any]) -> list[dict[str, Any]]:
    rows = _records(found, NOTE, "training note", OF_SOME_NOTES)
    rows = [{**row, "label": decoded(row["label"], "label")} for row in rows]
    for row in rows:
        require(row["label"] in classes, f"a training note is {row!r:.200}, of no class")
    return rows


def _calibration(found: Any, classes: list[Any]) -> tuple[ClassCalibration, ...]:
    rows = _records(found, CALIBRATION, "calibration of a class")
    labels = [decoded(row["label"], "label") for row in rows]
    require(labels in ([], classes), f"its calibration is of {labels!r:.100}")
    for row in rows:
        fits = len(row["counts"]) == len(PEAK_BINS) - 1 and row["prior"] > 0.0
        require(fits, f"the calibration of a class is {row!r:.200}, which is not valid")
    return tuple(
        ClassCalibration(**{**row, "label": label, "counts": tuple(row["counts"])})
        for row, label in zip(rows, labels, strict=True)
    )
