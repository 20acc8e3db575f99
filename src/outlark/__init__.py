"""Finds the notes you know and tells you which ones you don't.

outlark describes each class by its kernel Mahalanobis distance (MDD-KM), all classes on one scale, and says *known*,
*ambiguous* or *unknown*. `NoteDetector` finds notes in recordings, `NoteClassifier` names those of clips. `MDDKM` is
inside both, for samples of any kind; `PKNN` and `OCCGP` are the methods it is compared with, `RejectOption` gives any
other classifier a way to say "none of these", `outlark.metrics` measures all of them alike, `outlark.model_file` keeps
a trained detector, and `outlark.embeddings` has models of others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outlark.version import __version__

if TYPE_CHECKING:
    from outlark import embeddings, metrics, model_file
    from outlark.errors import InputError, OutlarkError
    from outlark.estimators.hlds import HLDS
    from outlark.estimators.mddkm import MDDKM
    from outlark.estimators.occgp import OCCGP
    from outlark.estimators.pknn import PKNN
    from outlark.estimators.reject import RejectOption
    from outlark.notes.classifier import NoteClassifier
    from outlark.notes.decisions import Decisions
    from outlark.notes.detector import NoteDetector
    from outlark.notes.front_ends.array import ArrayFrontEnd
    from outlark.notes.front_ends.hlds import HLDSFrontEnd
    from outlark.notes.front_ends.note import NoteFrontEnd
    from outlark.notes.front_ends.patch import PatchFrontEnd
    from outlark.notes.segments import Segment

__all__ = [
    "HLDS",
    "MDDKM",
    "OCCGP",
    "PKNN",
    "ArrayFrontEnd",
    "Decisions",
    "HLDSFrontEnd",
    "InputError",
    "NoteClassifier",
    "NoteDetector",
    "NoteFrontEnd",
    "OutlarkError",
    "PatchFrontEnd",
    "RejectOption",
    "Segment",
    "__version__",
    "embeddings",
    "metrics",
    "model_file",
]

#: Where each public name comes from. It is imported when first asked for, so that the command line starts at once.
_HOME = {
    "HLDS": "estimators.hlds",
    "MDDKM": "estimators.mddkm",
    "OCCGP": "estimators.occgp",
    "PKNN": "estimators.pknn",
    "ArrayFrontEnd": "notes.front_ends.array",
    "Decisions": "notes.decisions",
    "HLDSFrontEnd": "notes.front_ends.hlds",
    "InputError": "errors",
    "NoteClassifier": "notes.classifier",
    "NoteDetector": "notes.detector",
    "NoteFrontEnd": "notes.front_ends.note",
    "OutlarkError": "errors",
    "PatchFrontEnd": "notes.front_ends.patch",
    "RejectOption": "estimators.reject",
    "Segment": "notes.segments",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name in __all__:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
