"""How good scores, decisions and found events are, beside the chance level where there is one (NumPy and SciPy)."""

from outlark.metrics.confusion import ConfusionMatrix, open_set_confusion_matrix
from outlark.metrics.events import EventScores, Rates, TimeErrors, event_f, onset_offset_errors
from outlark.metrics.matching import Events, Matching, match_events
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
from outlark.metrics.windows import FScores, note_f, note_labels, window_f

__all__ = [
    "ConfusionMatrix",
    "EventScores",
    "Events",
    "FScores",
    "Matching",
    "OpenSetReport",
    "Rates",
    "TimeErrors",
    "accuracy_known",
    "augrc",
    "aurc",
    "auroc",
    "ccr_at_fpr",
    "event_f",
    "fpr_at_tpr",
    "match_events",
    "note_f",
    "note_labels",
    "onset_offset_errors",
    "open_set_confusion_matrix",
    "open_set_report",
    "oscr",
    "oscr_curve",
    "window_f",
]
