"""Finds the notes you know and tells you which ones you don't.

outlark describes each class by its kernel Mahalanobis distance (MDD-KM), all classes on one scale, and says *known*,
*ambiguous* or *unknown*. `NoteDetector` finds notes in recordings; `FrameDetector`, the system as published, works by
frames; `ClipFeatures` describes clips. `MDDKM` is inside, for samples of any kind; `PKNN` and `OCCGP` are the methods
it is compared with, `outlark.metrics` measures all of them alike, `save` and `load` keep trained models, and
`outlark.embeddings` wraps third-party models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outlark.version import __version__

if TYPE_CHECKING:
    from outlark import embeddings, metrics
    from outlark.detection.decisions import Decisions
    from outlark.detection.detector import NoteDetector
    from outlark.errors import InputError, OutlarkError
    from outlark.estimators.hlds import HLDS
    from outlark.estimators.mddkm import MDDKM
    from outlark.estimators.occgp import OCCGP
    from outlark.estimators.pknn import PKNN
    from outlark.features.array import ArrayFrontEnd
    from outlark.features.clip import ClipFeatures
    from outlark.features.note import NoteFrontEnd
    from outlark.model_file import load, load_estimator, save
    from outlark.paper.decisions import Rules
    from outlark.paper.detector import FrameDetector
    from outlark.paper.front_end import HLDSFrontEnd
    from outlark.segments import Segment

__all__ = [
    "HLDS",
    "MDDKM",
    "OCCGP",
    "PKNN",
    "ArrayFrontEnd",
    "ClipFeatures",
    "Decisions",
    "FrameDetector",
    "HLDSFrontEnd",
    "InputError",
    "NoteDetector",
    "NoteFrontEnd",
    "OutlarkError",
    "Rules",
    "Segment",
    "__version__",
    "embeddings",
    "load",
    "load_estimator",
    "metrics",
    "save",
]

#: Where each public name comes from. It is imported when first asked for, so that the command line starts at once.
_HOME = {
    "HLDS": "estimators.hlds",
    "MDDKM": "estimators.mddkm",
    "OCCGP": "estimators.occgp",
    "PKNN": "estimators.pknn",
    "ArrayFrontEnd": "features.array",
    "ClipFeatures": "features.clip",
    "Decisions": "detection.decisions",
    "FrameDetector": "paper.detector",
    "HLDSFrontEnd": "paper.front_end",
    "InputError": "errors",
    "NoteDetector": "detection.detector",
    "NoteFrontEnd": "features.note",
    "OutlarkError": "errors",
    "Rules": "paper.decisions",
    "load": "model_file",
    "load_estimator": "model_file",
    "save": "model_file",
    "Segment": "segments",
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
