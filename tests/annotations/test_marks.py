"""An annotation: what it takes, and to segments and back."""

import numpy as np
import pytest

from outlark.annotations import Annotation
from outlark.annotations.annotation import behind, is_known, is_sound, shown
from outlark.errors import AnnotationError, InputError
from outlark.segments import Segment


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start_s": -1.0}, r"the start, -1.0 s, is negative; times count from the start"),
        ({"end_s": 0.25}, r"the end, 0.25 s, is before the start, 0.5 s; check whether the columns are swapped"),
        ({"end_s": 1e9}, r"the end, 1e\+09 s, is years away"),
        ({"start_s": float("nan")}, r"start_s=nan must be a finite number"),
        ({"end_s": float("inf")}, r"end_s=inf must be a finite number"),
        ({"start_s": "0.5"}, r"start_s='0.5' must be a finite number"),
        ({"score": float("-inf")}, r"score=-inf must be a finite number"),
        ({"verdict": "sure"}, r"verdict='sure' must be one of .* or None"),
        ({"low_hz": 2, "high_hz": 1}, r"the low frequency, 2 Hz, is above the high one, 1 Hz"),
        ({"channel": 0}, r"channel=0 must be from 1 to"),
        ({"sample_rate": 0}, r"sample_rate=0 must be from 1 to"),
    ],
)
def test_what_is_no_mark(given, message):
    with pytest.raises(InputError, match=message):
        Annotation(**{"start_s": 0.5, "end_s": 1.0, **given})


def test_numbers_become_python_floats():
    annotation = Annotation(start_s=np.float32(0.5), end_s=1, score=np.float64(2))
    assert [type(value) for value in (annotation.start_s, annotation.end_s, annotation.score)] == [float] * 3


def test_a_segment_and_back():
    segment = Segment(
        start=11, end=5000, sample_rate=22050, label="a", verdict="ambiguous", score=2.5, runner_up="b",
        runner_up_score=2.25, reason="between a and b",
    )  # fmt: skip
    annotation = Annotation.from_segment(segment, "night.flac")
    assert annotation.recording == "night.flac"
    assert annotation.segment(22050) == segment


def test_labels_of_any_type_become_text_and_no_runner_up_has_no_score():
    annotation = Annotation.from_segment(Segment(start=0, end=1, sample_rate=8, label=np.int64(3)))
    assert (annotation.label, annotation.runner_up, annotation.runner_up_score) == ("3", None, None)
    assert annotation.score == 0.0


def test_blank_labels_are_unknown_as_segments_and_others_known():
    assert Annotation(start_s=0, end_s=1).segment(100).verdict == "unknown"
    assert Annotation(start_s=0, end_s=1, label="a").segment(100).verdict == "known"
    assert Annotation(start_s=0, end_s=1, verdict="silence").segment(100).verdict == "silence"


def test_spans_without_samples():
    with pytest.raises(
        AnnotationError, match=r"^an annotation \('a' at 0.5 s\) has no samples at 8000 Hz .*; annotate"
    ):
        Annotation(start_s=0.5, end_s=0.50001, label="a").segment(8000)
    with pytest.raises(AnnotationError, match=r"^line 7: a point label"):
        Annotation(start_s=0.5, end_s=0.5, line=7).segment(8000)


@pytest.mark.parametrize("verdict", ["known", "ambiguous", "unknown", "silence", None])
@pytest.mark.parametrize("label", ["a", "known", "x?", "a or b?", None])
@pytest.mark.parametrize("runner_up", ["b", None])
def test_the_label_behind_what_is_shown(verdict, label, runner_up):
    annotation = Annotation(start_s=0, end_s=1, label=label, verdict=verdict, runner_up=runner_up)
    assert behind(shown(annotation) or None, verdict, runner_up)[0] == label


def test_which_marks_are_sounds_and_which_known():
    kinds = [("a", "known"), ("a", "ambiguous"), (None, "unknown"), (None, "silence"), ("a", None), (None, None)]
    annotations = [Annotation(start_s=0, end_s=1, label=label, verdict=verdict) for label, verdict in kinds]
    assert [is_sound(annotation) for annotation in annotations] == [True, True, True, False, True, True]
    assert [is_known(annotation) for annotation in annotations] == [True, False, False, False, True, False]
