"""The methods that can be compared, by name: those of the table, and any front end, class model and decision rule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from outlark.detection.decisions import Decisions
from outlark.detection.detector import GAP_S, NoteDetector
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.pknn import PKNN
from outlark.features.note import NoteFrontEnd
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector
from outlark.paper.experiment.rivals import (
    LEARNT,
    ClassMahalanobis,
    ClassSVM,
    GPReject,
    IndependentOCCGP,
    NearestNeighbour,
    PlattReject,
    TemplateMatching,
)
from outlark.paper.front_end import HLDSFrontEnd
from outlark.paper.learnt_thresholds import LearntNoteDetector
from outlark.plain_text import Line, TextTable

FRONTS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {"note": NoteFrontEnd, "hlds": HLDSFrontEnd, "hlds-top": HLDSFrontEnd.paper}
)
DECISIONS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {"rules": Rules, "paper": Rules.paper, "notes": Decisions}
)
#: MDD-KM for frames of length 1: σ = 1, and σ_reg²/σ² = .1 because there are few of them in many dimensions.
UNIT_SETTINGS: dict[str, Any] = {"metric": "euclidean", "sigma": 1.0, "sigma_reg": 0.1**0.5}


def _model(make: Callable[..., Any], front: str) -> Any:
    """Note-level detectors have thresholds of their own: learning those of the class model would be wasted effort."""
    return make(threshold=0.0) if front == "note" else make()


def _occgp(front: str) -> IndependentOCCGP:
    """With the settings that MDD-KM has for this front end."""
    if front == "hlds-top":
        return IndependentOCCGP.paper()
    frames = {"metric": "euclidean", "sigma_reg": "condition"}
    return _model(partial(IndependentOCCGP, **(frames if front == "hlds" else UNIT_SETTINGS)), front)


#: From the name of a front end to a class model for it; None stands for the detector's own choice. PKNN has as many
#: prototypes in a fit without a note as with it: left-out scores would otherwise reflect their number.
CLASS_MODELS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "mddkm": lambda front: None,
        "mddkm-paper": lambda front: MDDKM.paper(),
        "pknn": lambda front: PKNN(n_prototypes=2) if front == "note" else PKNN(),
        "pknn-paper": lambda front: PKNN.paper(),
        "occgp": _occgp,
        "knn": partial(_model, NearestNeighbour),
        "svm": partial(_model, ClassSVM),
        "mahalanobis": partial(_model, ClassMahalanobis),
        "gp-reject": partial(_model, GPReject),
        "platt-reject": partial(_model, PlattReject),
    }
)


@dataclass(frozen=True)
class Method:
    """A way to find notes: its name, its title in tables, and a function that makes a fresh detector."""

    name: str
    title: str
    make: Callable[[], Any]


def method(text: str) -> Method:
    """A method by name, or as ``FRONT:CLASS_MODEL[:DECISIONS]``.

    It is one of `METHODS`; or one of `FRONTS`, one of `CLASS_MODELS` and, if it is not the usual one, one of
    `DECISIONS`. The front end "note" and the decision rule "notes" go together.

    >>> method("mddkm").title, method("hlds:knn:paper").title
    ('note-level, MDD-KM', 'hlds, knn, paper')
    """
    if text in METHODS:
        return METHODS[text]
    front, colon, rest = text.partition(":")
    if not colon:
        raise InputError(
            f"there is no method {text!r}; choose one of {', '.join(METHODS)}, or FRONT:CLASS_MODEL[:DECISIONS], as in "
            "hlds:knn:paper"
        )
    class_model, _, decisions = rest.partition(":")
    decisions = decisions or ("notes" if front == "note" else "rules")
    chosen = {
        "front end": (front, FRONTS),
        "class model": (class_model, CLASS_MODELS),
        "decision rule": (decisions, DECISIONS),
    }
    for what, (name, known) in chosen.items():
        if name not in known:
            raise InputError(f"{text!r}: there is no {what} {name!r}; choose one of {', '.join(known)}")
    if (front == "note") != (decisions == "notes"):
        raise InputError(
            f"{text!r}: the front end 'note' and the decision rule 'notes' only work together; "
            f"choose {'notes' if front == 'note' else 'rules or paper'}"
        )
    return Method(text, ", ".join(text.split(":")), partial(_detector, front, class_model, decisions))


def _detector(front: str, class_model: str, decisions: str) -> NoteDetector:
    front_end, model, decide = FRONTS[front](), CLASS_MODELS[class_model](front), DECISIONS[decisions]()
    if front == "note":
        return NoteDetector(front_end, decide) if model is None else LearntNoteDetector(model, front_end, decide)
    # The paper's clips follow each other without a gap.
    return FrameDetector(front_end, model, decide, gap_s=0.0 if front == "hlds-top" else GAP_S)


def _note_level(name: str, title: str) -> Method:
    return Method(name, f"note-level, {title}", partial(_detector, "note", name, "notes"))


_METHODS = (
    Method("mddkm-paper", "as published, MDD-KM", FrameDetector.paper),
    Method(
        "mddkm-paper-left-out",
        "as published, MDD-KM, left-out thresholds",
        lambda: FrameDetector.paper(MDDKM.paper(threshold=LEARNT)),
    ),
    Method("pknn-paper", "as published, PKNN", lambda: FrameDetector.paper(PKNN.paper())),
    Method("pknn-paper-left-out", "as published, PKNN, left-out thresholds", lambda: FrameDetector.paper(PKNN())),
    Method(
        "occgp-paper",
        "as published, independent OCC-GPs, left-out thresholds",
        lambda: FrameDetector.paper(IndependentOCCGP.paper()),
    ),
    Method("mddkm", "note-level, MDD-KM", NoteDetector),
    _note_level("pknn", "PKNN"),
    _note_level("occgp", "independent OCC-GPs"),
    _note_level("knn", "nearest neighbour"),
    _note_level("svm", "one-class SVM"),
    _note_level("mahalanobis", "Mahalanobis"),
    _note_level("gp-reject", "GP classifier with reject"),
    _note_level("platt-reject", "SVM-Platt with reject"),
    Method("templates", "template matching", TemplateMatching),
)
METHODS: Mapping[str, Method] = MappingProxyType({one.name: one for one in _METHODS})


class MethodList:
    """The result of `outlark experiment --list-methods`."""

    incomplete = False

    def as_json(self) -> dict[str, dict[str, str]]:
        return {"methods": {one.name: one.title for one in METHODS.values()}}

    def lines(self) -> list[Line]:
        return [TextTable([["method", "what it is"], *([one.name, one.title] for one in METHODS.values())])]
