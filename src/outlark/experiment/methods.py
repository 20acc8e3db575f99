"""The methods that can be compared, by name: those of the table, and any front end with any describer and decoder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from outlark.detection.decode.decisions import Decisions
from outlark.detection.detector import GAP_S, UNIT_SETTINGS, NoteDetector
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.pknn import PKNN
from outlark.experiment.describers import (
    ClassMahalanobis,
    ClassSVM,
    GPReject,
    IndependentOCCGP,
    NearestNeighbour,
    PlattReject,
)
from outlark.experiment.template_matching import TemplateMatching
from outlark.features.base import FrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.note import NoteFrontEnd

FRONTS: Mapping[str, Callable[[], FrontEnd]] = MappingProxyType(
    {"note": NoteFrontEnd, "hlds": HLDSFrontEnd, "hlds-top": HLDSFrontEnd.paper}
)
DECISIONS: Mapping[str, Callable[[], Decisions]] = MappingProxyType(
    {
        "rules": partial(Decisions, decoder="rules"),
        "paper": Decisions.paper,
        "viterbi": partial(Decisions, decoder="viterbi"),
        "notes": partial(Decisions, decoder="notes"),
    }
)


def _alone(make: Callable[..., Any], front: str) -> Any:
    """Whole notes have thresholds of their own: those of the describer would be found in vain."""
    return make(threshold=0.0) if front == "note" else make()


def _occgp(front: str) -> IndependentOCCGP:
    """Set as MDD-KM is for this front end."""
    if front == "hlds-top":
        return IndependentOCCGP.paper()
    frames = {"metric": "euclidean", "sigma_reg": "condition"}
    return _alone(partial(IndependentOCCGP, **(frames if front == "hlds" else UNIT_SETTINGS)), front)


def _pknn(front: str) -> PKNN:
    """As many prototypes in a fit without a note as with it: left-out scores would tell of their number otherwise."""
    return PKNN(n_prototypes=2) if front == "note" else PKNN()


#: From the name of a front end to a describer for it; None stands for the detector's own choice.
DESCRIBERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "mddkm": lambda front: None,
        "mddkm-paper": lambda front: NoteDetector.paper().describer,
        "pknn": _pknn,
        "pknn-paper": lambda front: PKNN.paper(),
        "occgp": _occgp,
        "knn": partial(_alone, NearestNeighbour),
        "svm": partial(_alone, ClassSVM),
        "mahalanobis": partial(_alone, ClassMahalanobis),
        "gp-reject": partial(_alone, GPReject),
        "platt-reject": partial(_alone, PlattReject),
    }
)


@dataclass(frozen=True)
class Method:
    """A way to find notes.

    Attributes
    ----------
    name : str
        What `method` takes.
    title : str
        For tables.
    make : function
        Gives a fresh detector: something with `fit`, `fit_recordings` and `detect`.
    """

    name: str
    title: str
    make: Callable[[], Any]


def method(text: str) -> Method:
    """A method by name, or as ``FRONT:DESCRIBER[:DECISIONS]``.

    Parameters
    ----------
    text : str
        One of `METHODS`; or one of `FRONTS`, one of `DESCRIBERS` and, if it is not the usual one, one of `DECISIONS`.
        Whole notes ("note") and the decoder "notes" go together.

    Examples
    --------
    >>> method("mddkm").title, method("hlds:knn:viterbi").title
    ('whole notes, MDD-KM', 'hlds, knn, viterbi')
    """
    if text in METHODS:
        return METHODS[text]
    front, colon, rest = text.partition(":")
    if not colon:
        raise InputError(
            f"there is no method {text!r}; take one of {', '.join(METHODS)}, or FRONT:DESCRIBER[:DECISIONS], as in "
            "hlds:knn:viterbi"
        )
    describer, _, decisions = rest.partition(":")
    usual = "notes" if front == "note" else "rules"
    return Method(text, ", ".join(text.split(":")), _maker(text, front, describer, decisions or usual))


def _maker(text: str, front: str, describer: str, decisions: str) -> Callable[[], NoteDetector]:
    _check(text, "front end", front, FRONTS)
    _check(text, "describer", describer, DESCRIBERS)
    _check(text, "way to decide", decisions, DECISIONS)
    if (front == "note") != (decisions == "notes"):
        raise InputError(
            f"{text!r}: the decoder 'notes' is for the front end 'note', whole notes, which take no other; "
            f"take {'notes' if front == 'note' else 'rules, paper or viterbi'}"
        )
    return partial(_detector, front, describer, decisions)


def _check(text: str, what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise InputError(f"{text!r}: there is no {what} {name!r}; take one of {', '.join(known)}")


def _detector(front: str, describer: str, decisions: str) -> NoteDetector:
    # The paper's clips follow each other without a gap.
    gap_s = 0.0 if front == "hlds-top" else GAP_S
    return NoteDetector(FRONTS[front](), DESCRIBERS[describer](front), DECISIONS[decisions](), gap_s=gap_s)


def _whole_notes(name: str, title: str) -> Method:
    return Method(name, f"whole notes, {title}", partial(_detector, "note", name, "notes"))


def _named(*methods: Method) -> Mapping[str, Method]:
    return MappingProxyType({one.name: one for one in methods})


METHODS: Mapping[str, Method] = _named(
    Method("mddkm-paper", "to the letter, MDD-KM", NoteDetector.paper),
    Method(
        "mddkm-paper-left-out",
        "to the letter, MDD-KM, left-out thresholds",
        lambda: NoteDetector.paper(MDDKM.paper(threshold="leave-note-out")),
    ),
    Method("pknn-paper", "to the letter, PKNN", lambda: NoteDetector.paper(PKNN.paper())),
    Method("pknn-paper-left-out", "to the letter, PKNN, left-out thresholds", lambda: NoteDetector.paper(PKNN())),
    Method(
        "occgp-paper",
        "to the letter, independent OCC-GPs, left-out thresholds",
        lambda: NoteDetector.paper(IndependentOCCGP.paper()),
    ),
    Method("mddkm", "whole notes, MDD-KM", NoteDetector),
    _whole_notes("pknn", "PKNN"),
    _whole_notes("occgp", "independent OCC-GPs"),
    _whole_notes("knn", "nearest neighbour"),
    _whole_notes("svm", "one-class SVM"),
    _whole_notes("mahalanobis", "Mahalanobis"),
    _whole_notes("gp-reject", "GP classifier with reject"),
    _whole_notes("platt-reject", "SVM-Platt with reject"),
    Method("templates", "template matching", TemplateMatching),
)
