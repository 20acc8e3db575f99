"""How good scores, decisions and found events are, beside the chance level where there is one."""

from outlark.metrics.events import (
    Events,
    EventScores,
    Matching,
    Rates,
    TimeErrors,
    event_f,
    match_events,
    onset_offset_errors,
)
from outlark.metrics.open_set import (
    OpenSetReport,
    accuracy_known,
    auroc,
    ccr_at_fpr,
    fpr_at_tpr,
    open_set_report,
    oscr,
    oscr_curve,
)
from outlark.metrics.windows import (
    ConfusionMatrix,
    FScores,
    note_f,
    note_labels,
    open_set_confusion_matrix,
    window_f,
)

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
