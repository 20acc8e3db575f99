"""A trained detector, or an estimator, in one file: everything needed to give the same answers again.

Numbers and text only (`files.container`): nothing in a file is executed, and it chooses among the classes listed here
by name. Dataclasses and named tuples are kept field by field, estimators by their parameters and the attributes in
`FITTED`. Defaults are written out, so that another version of outlark, with other defaults, gives the same segments.
"""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from outlark.detection.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.detection.model import DetectorModel, NoteModel
from outlark.detection.scorer import Edges
from outlark.detection.second_stage import SecondStage, identity_of
from outlark.detection.thresholds import ClassCalibration
from outlark.embeddings import BirdNET
from outlark.errors import InputError, ModelFileError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.open_set import check_outlier_label
from outlark.estimators.pknn import PKNN, Eta, Prototypes
from outlark.estimators.training import Size
from outlark.features.array import ArrayFrontEnd
from outlark.features.base import FrontEnd
from outlark.features.clip import Embedding
from outlark.features.note import NoteFrontEnd
from outlark.files.container import MODEL_VERSION, Arrays, about, digest_of, pack, read, unpack, write
from outlark.maths.choice import ChoiceTrial
from outlark.maths.description import Description
from outlark.maths.landmarks import LandmarkDescription
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector, FrameModel
from outlark.paper.front_end import HLDSFrontEnd
from outlark.version import __version__

CLASS_MODEL_TYPES: tuple[type[BaseEstimator], ...] = (MDDKM, PKNN)
DETECTORS: dict[str, type[NoteDetector]] = {"NoteDetector": NoteDetector, "FrameDetector": FrameDetector}
#: Dataclasses and named tuples that a file may name.
RECORDS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind
    for kind in (
        NoteModel, FrameModel, SecondStage, ClassCalibration, Edges, Description, LandmarkDescription, Prototypes, Eta,
        Size, ChoiceTrial,
    )
}  # fmt: skip
_OPEN_SET = ("classes_", "n_features_in_", "thresholds_", "left_out_scores_", "left_out_note_scores_")
#: Estimators that a file may name, and what it keeps of them besides their parameters. Other attributes follow from
#: these; those of front ends that learn nothing follow from the sample rate.
FITTED: dict[type, tuple[str, ...]] = {
    MDDKM: (
        *_OPEN_SET, "sigma_", "length_scale_", "sigma_reg_", "metric_", "_ratio", "reference_size_", "trials_",
        "trimmed_", "feature_map_", "_origin", "size_factors_", "descriptions_", "notes_", "_together",
    ),
    PKNN: (*_OPEN_SET, "_model"),
    NoteFrontEnd: ("sample_rate_",),
    HLDSFrontEnd: ("sample_rate_",),
    ArrayFrontEnd: (
        "sample_rate_", "n_channels_", "window_samples_", "hop_samples_", "offset_samples_", "context_samples_",
        "delay_samples_", "floor_s_", "power_", "mean_", "scale_", "n_features_",
    ),
    Decisions: (),
    Rules: (),
}  # fmt: skip
ESTIMATORS: dict[str, type[BaseEstimator]] = {kind.__name__: kind for kind in FITTED}
EMBEDDINGS = {"outlark.embeddings.BirdNET": BirdNET}
#: Most samples of these settings, so that no file can ask for all the memory there is; and most features of a note.
MAX_SETTING_SAMPLES, MAX_FEATURES = {"window_s": 2**18, "surroundings_s": 2**18, "lag_s": 2**22}, 2**20
#: What wrong settings raise, one way or another, where they are used.
WRONG_SETTINGS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, MemoryError)
#: Scores do not depend on these fields of a model.
NOT_SCORING = ("choice", "training", "negatives", "lineage", "calibration", "by_hand")
NEWER = "written by a newer outlark? pip install -U outlark"
OLDER = "it was written by an older version of outlark; train it again"


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
    kind = type(model).__name__
    arrays: Arrays = {}
    if type(model) not in (*CLASS_MODEL_TYPES, *DETECTORS.values()):
        names = ", ".join([*DETECTORS, *(known.__name__ for known in CLASS_MODEL_TYPES)])
        raise InputError(f"{kind} cannot be saved; give one of {names}")
    check_is_fitted(model)
    header: dict[str, Any] = {"kind": kind, "version": MODEL_VERSION, "versions": _versions()}
    if isinstance(model, NoteDetector):
        model.try_out()  # parameters may have been set since
        header |= {
            "model": _packed(model.model_, "model", arrays),
            "decisions": _packed(model.decisions_, "decisions", arrays),
            "derived": _packed(_derived(model), "derived", arrays),
        }
        stage = model.model_.second_stage
        header["embedding"] = None if stage is None else stage.identity["name"]
        if isinstance(model, FrameDetector):
            header["gap_s"] = _packed(model.gap_s, "gap_s", arrays)
    else:
        model._check_parameters()
        header["model"] = _packed(model, "model", arrays)
    write(path, header, arrays)


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
        kind = _checked_kind(header)
        if kind not in DETECTORS:
            raise ModelFileError(
                f"it holds a class model alone ({kind}), which takes no sound; read it with outlark.load_estimator, or "
                "give the file of a NoteDetector"
            )
        return _tried(lambda: _detector(header, _Reader(arrays, embedding)))


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
        kind = _checked_kind(header)
        if kind in DETECTORS:
            raise ModelFileError(f"it holds a {kind}; read it with outlark.load, and take its class_model_")
        model = _tried(lambda: _Reader(arrays).value(header["model"], "model"))
        if not isinstance(model, CLASS_MODEL_TYPES):
            raise ModelFileError(f"its model is a {type(model).__name__}; save it again")
        return model


def scoring_sha256(detector: NoteDetector) -> str:
    """Identifies all of a detector that scores depend on: the same whatever its thresholds and decisions."""
    arrays: Arrays = {}
    kept = {name: value for name, value in vars(detector.model_).items() if name not in NOT_SCORING}
    return digest_of(_packed(kept, "model", arrays), arrays)


def settings_of(estimator: BaseEstimator) -> dict[str, Any]:
    """The parameters of an estimator as strict JSON."""
    return _parameters(estimator, "", {})


def _parameters(estimator: BaseEstimator, name: str, arrays: Arrays) -> dict[str, Any]:
    given = estimator.get_params(deep=False)
    return {own: pack(value, f"{name}/{own}", arrays) for own, value in given.items()}


# ------------------------------------------------------------------ writing


def _versions() -> dict[str, str]:
    libraries = {module.__name__: module.__version__ for module in (np, scipy)}
    return {"outlark": __version__, **libraries, "scikit-learn": sklearn.__version__}


def _derived(detector: NoteDetector) -> dict[str, Any]:
    """What follows from the rest of the file, unless other code gives other results."""
    layout = detector.layout_
    names = ("sample_rate", "hop_samples", "offset_samples")
    return {name: int(getattr(layout, name)) for name in names} | {
        "classes": layout.classes.tolist(),
        "thresholds": layout.thresholds.tolist(),
        "threshold_sources": detector.model_.threshold_sources,
    }


def _packed(value: Any, name: str, arrays: Arrays) -> Any:
    def of_object(value: Any, name: str) -> dict[str, Any]:
        kind = type(value).__name__
        if RECORDS.get(kind) is type(value):
            own = {field: getattr(value, field) for field in _field_names(value)}
            return {"kind": kind, "fields": {field: pack_field(own[field], f"{name}/{field}") for field in own}}
        if ESTIMATORS.get(kind) is type(value):
            kept = [*FITTED[type(value)], *(["feature_names_in_"] if hasattr(value, "feature_names_in_") else [])]
            own = {field: getattr(value, field) for field in kept if hasattr(value, field)}
            fitted = {field: pack_field(own[field], f"{name}/{field}") for field in own}
            return {"kind": kind, "parameters": _parameters(value, f"{name}/parameters", arrays), "fields": fitted}
        if callable(value):
            identity = identity_of(value)
            return {"kind": "embedding", **identity, "parameters": pack(identity["parameters"], name, arrays)}
        raise InputError(
            f"{name} is {value!r:.100}, of type {kind}, which cannot be saved; use numbers, str, None, lists and dicts "
            f"of these, or one of {', '.join(ESTIMATORS)}"
        )

    def pack_field(value: Any, name: str) -> Any:
        return pack(value, name, arrays, of_object)

    return pack_field(value, name)


def _field_names(record: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record)) if is_dataclass(record) else record._fields


# ------------------------------------------------------------------ reading


def _checked_kind(header: Mapping[str, Any]) -> str:
    kind, version = header.get("kind"), header.get("version", 1)
    known = {*DETECTORS, *(kind.__name__ for kind in CLASS_MODEL_TYPES)}
    if not isinstance(kind, str) or kind not in known:
        raise ModelFileError(f"it holds a {kind!r:.100}, not one of {', '.join(sorted(known))}; {NEWER}")
    if version != MODEL_VERSION:
        older = isinstance(version, int) and version < MODEL_VERSION
        raise ModelFileError(OLDER if older else f"version {version!r:.20} of model files; {NEWER}")
    return kind


def _tried(made: Callable[[], Any]) -> Any:
    """What was made from a file; any failure is a ModelFileError."""
    try:
        return made()
    except ModelFileError:
        raise
    except KeyError as error:
        raise ModelFileError(f"it has no {error}: {OLDER}") from None
    except WRONG_SETTINGS as error:
        raise ModelFileError(f"the model is damaged: {error!s:.300}; save it again") from None


def _detector(header: dict[str, Any], reader: "_Reader") -> NoteDetector:
    model, decisions = reader.value(header["model"], "model"), reader.value(header["decisions"], "decisions")
    if not isinstance(model, DetectorModel):
        raise ModelFileError(f"its model is a {type(model).__name__}; save it again")
    detector: NoteDetector
    width = model.front_end.n_features_
    if isinstance(model, NoteModel):
        width *= model.front_end.n_slices
        given = None if model.choice else clone(model.front_end)  # it chose its own settings, and will do so again
        embedding = None if model.second_stage is None else model.second_stage.embedding
        detector = NoteDetector(given, decisions, embedding=embedding)
    else:
        gap_s = reader.value(header["gap_s"], "gap_s")
        detector = FrameDetector(clone(model.front_end), clone(model.class_model), decisions, gap_s=gap_s)
    if width != model.class_model.n_features_in_:
        takes = model.class_model.n_features_in_
        raise ModelFileError(f"its front end gives {width} features, but its class model takes {takes}; save it again")
    detector.model_ = model
    detector._check_parameters()
    detector.try_out()
    found, expected = _derived(detector), reader.value(header["derived"], "derived")
    for name, value in found.items():
        if value != expected[name]:
            raise ModelFileError(
                f"its {name} are {expected[name]!r:.100}, but the rest of the file gives {value!r:.100}; {OLDER}"
            )
    return detector


class _Reader:
    """Makes the objects of a file."""

    def __init__(self, arrays: Arrays, embedding: Embedding | None = None) -> None:
        self._arrays, self._given = arrays, embedding
        for name, array in arrays.items():
            infinite = name.endswith(("thresholds", "thresholds_"))
            if array.dtype.kind == "f" and not (~np.isnan(array) if infinite else np.isfinite(array)).all():
                raise ModelFileError(f"array {name!r} holds NaN or inf, where numbers must be; save the model again")

    def value(self, node: Any, name: str) -> Any:
        return unpack(node, name, self._arrays, self._object)

    def _object(self, node: dict[str, Any], name: str) -> Any:
        match node:
            case {"kind": "embedding", "name": str(own), "version": str(version), "parameters": parameters}:
                return self._embedding(own, version, self.value(parameters, name))
            case {"kind": str(kind), "parameters": dict(given), "fields": dict(fitted)} if kind in ESTIMATORS:
                return self._estimator(ESTIMATORS[kind], given, fitted, name)
            case {"kind": str(kind), "fields": dict(given)} if kind in RECORDS:
                return RECORDS[kind](**{own: self.value(entry, f"{name}/{own}") for own, entry in given.items()})
        raise ModelFileError(f"{name} is a {node.get('kind')!r:.100}, which this outlark does not know; {NEWER}")

    def _estimator(
        self, kind: type[BaseEstimator], given: dict[str, Any], fitted: dict[str, Any], name: str
    ) -> BaseEstimator:
        """Defaults change, so a missing parameter is an error."""
        parameters = kind().get_params(deep=False).keys()
        if given.keys() != parameters:
            differ = sorted(given.keys() ^ parameters)
            raise ModelFileError(f"{kind.__name__} has other parameters than in the file: {differ!s:.200}; {OLDER}")
        estimator = kind(**{own: self.value(entry, f"{name}/parameters/{own}") for own, entry in given.items()})
        if fitted.keys() - {*FITTED[kind], "feature_names_in_"}:
            raise ModelFileError(f"{kind.__name__} has other attributes than in the file; {NEWER}")
        values = {own: self.value(entry, f"{name}/{own}") for own, entry in fitted.items()}
        if isinstance(estimator, FrontEnd):
            _check_size(estimator, values["sample_rate_"])
            if type(estimator) is not ArrayFrontEnd:
                return estimator.fit([], values["sample_rate_"])
        vars(estimator).update(values)
        if isinstance(estimator, MDDKM | PKNN):
            _check_class_model(estimator)
        return estimator

    def _embedding(self, name: str, version: str, parameters: Any) -> Embedding:
        """The embedding of this name and version: the given one, or one of outlark's."""
        if self._given is None and name not in EMBEDDINGS:
            raise ModelFileError(
                f"it was trained with the embedding {name!r:.200}, which is not part of outlark; in Python, give it to "
                "load(path, embedding=…)"
            )
        found = EMBEDDINGS[name](**parameters) if self._given is None else self._given
        there = identity_of(found)
        if (there["name"], there["version"]) != (name, version):
            raise ModelFileError(
                f"it was trained with the embedding {name!r:.200}, version {version!r:.50}, but this is "
                f"{there['name']!r}, version {there['version']!r}, whose numbers mean something else; give that one, "
                "or train again"
            )
        return found


def _check_size(front_end: FrontEnd, sample_rate: Any) -> None:
    """Refuse what would take more memory than a front end ever needs."""
    parameters, rate = front_end.get_params(), front_end.check_rate(sample_rate)
    for name in parameters.keys() & MAX_SETTING_SAMPLES.keys():
        if not isinstance(parameters[name], str) and parameters[name] * rate > MAX_SETTING_SAMPLES[name]:
            raise InputError(
                f"{name}={parameters[name]!r:.100} is more than {MAX_SETTING_SAMPLES[name]} samples; give less"
            )
    if parameters.get("n_slices", 1) * parameters.get("n_bands", 1) > MAX_FEATURES:
        raise InputError(f"more than {MAX_FEATURES} features; give fewer n_slices or n_bands")


def _check_class_model(model: MDDKM | PKNN) -> None:
    """Its parameters, and that all its arrays fit together."""
    if isinstance(model, PKNN):
        model.prototypes_, owners, model.fuzzy_labels_, model.eta_ = model._model
        model.prototype_labels_ = model.classes_[owners]
    model._check_parameters()
    check_outlier_label(model.outlier_label, model.classes_)
    with warnings.catch_warnings():  # about names of features
        warnings.simplefilter("ignore")
        scores = model.class_scores(np.zeros((2, model.n_features_in_)))
    if scores.shape != (2, len(model.thresholds_)) or np.isnan(scores).any():
        raise ModelFileError("its class model gives no scores; save the model again")
