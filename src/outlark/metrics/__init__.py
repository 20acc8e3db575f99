"""How good open-set scores and decisions are, always beside the chance level (NumPy only)."""

from outlark.metrics.confusion import ConfusionMatrix, open_set_confusion_matrix
from outlark.metrics.open_set import (
    accuracy_known,
    augrc,
    aurc,
    auroc,
    ccr_at_fpr,
    fpr_at_tpr,
    oscr,
    oscr_curve,
)
from outlark.metrics.open_set_report import OpenSetReport, open_set_report

__all__ = [
    "ConfusionMatrix",
    "OpenSetReport",
    "accuracy_known",
    "augrc",
    "aurc",
    "auroc",
    "ccr_at_fpr",
    "fpr_at_tpr",
    "open_set_confusion_matrix",
    "open_set_report",
    "oscr",
    "oscr_curve",
]
