"""Measures of detections: the same as those of the benchmarks, and what counts and what does not."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from hypothesis import assume, given
from hypothesis import strategies as st
from real_note_tasks import Draw, Recording
from real_notes import measure

from outlark import Segment
from outlark.annotations import About, Annotation, write_annotations
from outlark.commands.evaluate import match_tables
from outlark.commands.evaluation import (
    EVALUATION_WINDOW_S,
    REST,
    Compared,
    answers,
    csv_text,
    evaluate,
    measures,
)
from outlark.errors import AnnotationError, InputError
from outlark.metrics import window_f

RATE = 1000
CLASSES = ["a", "b"]


def segments(labels, verdicts):
    """Spans within 2 s, in whole milliseconds."""
    spans = st.tuples(st.integers(0, 1900), st.integers(1, 300), st.sampled_from(labels), st.sampled_from(verdicts))
    made = spans.map(lambda s: Segment(start=s[0], end=s[0] + s[1], sample_rate=RATE, label=s[2], verdict=s[3]))
    return st.lists(made, max_size=8)


recordings = st.tuples(
    segments(["a", "b", "x"], ["known"]),
    segments([None], ["unknown"]),
    segments(["a", "b", "x"], ["known", "ambiguous"]),
    segments([None], ["unknown", "silence"]),
)


def is_on_the_edge(truth, unnamed, known, others):
    """Whether a pair overlaps by exactly half, of the union or of one of them: there the last bit of a time decides."""
    shared = [(min(a.end, b.end) - max(a.start, b.start), a, b) for a in (*known, *others) for b in (*truth, *unnamed)]
    return any(
        2 * both in (a.end - a.start, b.end - b.start, a.end - a.start + b.end - b.start - both)
        for both, a, b in shared
        if both > 0
    )


@given(st.lists(recordings, min_size=1, max_size=3))
def test_the_measures_are_those_of_the_benchmarks(made):
    samples = np.zeros(2 * RATE + 200)
    drawn = Draw([], [Recording(samples, RATE, truth, left_out) for truth, left_out, *_ in made], CLASSES)
    found = [[*known, *others] for *_, known, others in made]
    assume(any(truth for truth, *_ in made))  # the benchmarks have notes in every set
    assume(not any(is_on_the_edge(*of_one) for of_one in made))
    theirs = measure(drawn, found, 0.0)
    compared = [
        Compared(
            "",
            *([Annotation.from_segment(s) for s in side] for side in ([*truth, *unnamed], answers)),
            len(samples) / RATE,
        )
        for (truth, unnamed, *_), answers in zip(made, found, strict=True)
    ]
    ours = evaluate(compared, CLASSES, ious=[0.5])
    np.testing.assert_allclose(
        [ours.windows.macro_all, ours.notes.macro_known, ours.events[0.5].pooled.f],
        [theirs.window_f, theirs.note_f, theirs.event_f],
    )
    np.testing.assert_allclose(1000 * ours.all_errors.median_absolute[0], theirs.onset_ms, atol=1e-6)


def test_windows_from_counts_are_those_from_labels(rng):
    truth, found = (
        [Annotation(start_s=s, end_s=s + 0.3, label=str(rng.choice(["a", "b", "x"]))) for s in rng.uniform(0, 9, 12)]
        for _ in range(2)
    )
    ours = evaluate([Compared("", truth, found, 10.0)], CLASSES).windows
    times = (np.arange(2000) + 0.5) * EVALUATION_WINDOW_S

    def painted(annotations):
        labels = np.full(2000, REST, dtype=object)
        for annotation in annotations:
            labels[(times >= annotation.start_s) & (times < annotation.end_s)] = annotation.label
        return labels

    # a true note that is no class does not cover one that is
    theirs = window_f(painted([m for m in truth if m.label in CLASSES]), painted(found), CLASSES, REST)
    assert str(ours) == str(theirs)
    assert ours.chance == theirs.chance


def annotation(start_s, label=None, verdict=None, length_s=0.5, **more):
    return Annotation(start_s=start_s, end_s=start_s + length_s, label=label, verdict=verdict, **more)


def test_what_is_found_at_marks_without_a_label_counts_neither_way():
    truth = [annotation(1, "a"), annotation(3), annotation(5, verdict="unknown")]
    found = [annotation(1, "a"), annotation(3.1, "a"), annotation(5, "b"), annotation(7, "a")]
    measured = evaluate([Compared("", truth, found, 10.0)], CLASSES)
    assert (measured.events[0.5].true_positives[0], measured.events[0.5].false_positives.tolist()) == (1, [1, 0])
    assert measured.dcase.absorbed.tolist() == [1, 1]
    assert measured.windows.confusion.counts.sum() == 1800
    assert answers(measured) == {"a": {"a": 1, "b": 0, REST: 0}, "b": {"a": 0, "b": 0, REST: 0}}


def test_verdicts_and_points():
    point, silence = annotation(4, "a", length_s=0), annotation(5, verdict="silence", length_s=4)
    truth = [annotation(1, "a"), annotation(2, "a"), annotation(3, "a"), point, silence]
    found = [annotation(1, "a", "known"), annotation(2, "a", "ambiguous"), annotation(3, None, "unknown"), point]
    measured = evaluate([Compared("", truth, found, 10.0)], ["a"])
    events = measured.events[0.5]
    assert (events.true_positives[0], events.false_negatives[0], events.false_positives[0]) == (2, 1, 0)
    assert measured.windows.confusion.counts.sum() == 2000


def test_unknown_sound_that_is_given_a_name_is_wrong():
    measured = evaluate([Compared("", [annotation(1, "x")], [annotation(1, "a")], 10.0)], ["a"])
    assert measured.events[0.5].false_positives.tolist() == [1]
    assert answers(measured) == {"a": {"a": 0, REST: 0}, "x": {"a": 1, REST: 0}}


@pytest.mark.parametrize(
    ("recordings", "classes", "options", "told"),
    [
        ([], ["a"], {}, "no recordings to compare"),
        ([Compared("", [], [], 1.0)], [], {}, r"classes=\[\]"),
        ([Compared("", [], [], 1.0)], [REST], {}, r"no class named \(unknown\)"),
        ([Compared("", [], [], 1.0)], ["a"], {"ious": []}, r"ious=\[\]"),
        ([Compared("", [], [], 1.0)], ["a"], {"ious": [0.0]}, "min_iou is 0.0"),
    ],
)
def test_wrong_input(recordings, classes, options, told):
    with pytest.raises(InputError, match=told):
        evaluate(recordings, classes, **options)


def test_every_number_is_in_the_csv():
    truth = [annotation(1, "a"), annotation(2, "=b"), annotation(3, "x")]
    measured = evaluate([Compared("", truth, [annotation(1.01, "a")], 10.0)], ["a", "=b"])
    rows = list(csv.DictReader(io.StringIO(csv_text(measured))))
    found = {
        (row["measure"], row["class"].removeprefix("'"), row["answer"].removeprefix("'")): row["value"] for row in rows
    }
    assert len(found) == len(rows)
    for name, values in measures(measured).items():
        for label, value in values.items():
            told = found.pop((name, label, ""))
            assert told == "" if value is None else float(told) == value
    for label, counts in answers(measured).items():
        for answer, n in counts.items():
            assert int(found.pop(("answers", label, answer))) == n
    assert not found
    json.dumps(measures(measured), allow_nan=False)
    numbers = measures(measured)
    assert numbers["notes"] == {"a": 1, "=b": 1, "(pooled)": 2}
    assert numbers["onset_error_ms"]["a"] == pytest.approx(10.0)
    assert numbers["onset_error_ms"]["=b"] is numbers["event_precision_iou_0.5"]["=b"] is None
    assert not any(isinstance(v, float) and math.isnan(v) for values in numbers.values() for v in values.values())


# --------------------------------------------------------------------- tables


def test_a_folder_as_detect_leaves_it_against_tables_of_people(tmp_path):
    out, truth = tmp_path / "out", tmp_path / "truth"
    (out / "n").mkdir(parents=True)
    truth.mkdir()
    one = [
        annotation(1, "a", "known", recording="n/1.wav", score=1.0),
        annotation(2, "a", "ambiguous", recording="n/1.wav"),
    ]
    two = [annotation(3, "b", "known", recording="n/2.flac")]
    for format, end in (("csv", "outlark.csv"), ("raven", "Table.1.selections.txt"), ("audacity", "labels.txt")):
        write_annotations(out / f"n/1.wav.{end}", one, format=format)
        write_annotations(out / f"n/2.flac.{end}", two, format=format)
        write_annotations(out / f"n/3.wav.{end}", [], format=format)
    write_annotations(out / "combined.csv", [*one, *two], format="csv")
    (out / "failures.csv").write_text("recording,message\nx,y\n")
    write_annotations(truth / "1.Table.1.selections.txt", [annotation(1, "a")], format="raven")
    write_annotations(
        truth / "marks.csv",
        [annotation(3, "b", recording="2.flac"), annotation(3, "b", recording="4.wav")],
        format="csv",
    )
    write_annotations(truth / "3.labels.txt", [annotation(5, "b")], format="audacity")
    matched = match_tables(out, truth)
    counts = [(r.name, len(r.truth), len(r.found)) for r in matched.recordings]
    assert counts == [("1", 1, 2), ("3", 1, 0), ("2.flac", 1, 1), ("4.wav", 1, 0)]
    assert matched.missed == ("4.wav",)  # of 3.wav it is known that nothing was found
    assert matched.left_out == ()
    assert matched.labels == ["a", "b"]
    assert any(remark.startswith("skipped: ") and "failures.csv" in remark for remark in matched.remarks)
    assert not any("repeat" in remark for remark in matched.remarks)
    alone = match_tables(out, truth, detected_only=True)
    assert [r.name for r in alone.recordings] == ["1", "3", "2.flac"]
    assert "1 recording (4.wav) without detections skipped" in alone.remarks


ALL_FORMATS = {
    "csv": "outlark.csv", "raven": "Table.1.selections.txt", "audacity": "labels.txt", "jsonl": "jsonl",
    "kaleidoscope": "kaleidoscope.csv", "birdnet": "birdnet.csv", "dcase": "dcase.csv",
}  # fmt: skip


@pytest.mark.parametrize("formats", [list(ALL_FORMATS), ["audacity", "raven"], ["dcase", "birdnet", "jsonl"]])
def test_all_formats_of_a_run_are_one_table(tmp_path, formats):
    out = tmp_path / "out"
    (out / "n").mkdir(parents=True)
    found = [
        annotation(1, "a", "known", recording="n/1.wav", score=1.0),
        annotation(2, "a", "ambiguous", recording="n/1.wav", runner_up="b"),
        annotation(3, None, "unknown", recording="n/1.wav"),
        annotation(5, None, "silence", recording="n/1.wav"),
    ]
    for format in formats:
        write_annotations(out / f"n/1.wav.{ALL_FORMATS[format]}", found, format=format)
    write_annotations(out / "combined.csv", found, format="csv")
    write_annotations(tmp_path / "truth.csv", [annotation(1, "a", recording="n/1.wav")], format="csv")
    matched = match_tables(out, tmp_path / "truth.csv")
    (one,) = matched.recordings
    assert [m.label for m in one.found if m.verdict != "silence"] == ["a", "a", None]
    assert matched.left_out == ()
    assert not any("repeat" in remark for remark in matched.remarks)


@pytest.mark.parametrize("change", ["another label", "one mark less", "one mark more"])
def test_a_table_that_was_worked_on_says_something_of_its_own(tmp_path, change):
    out = tmp_path / "out"
    out.mkdir()
    found = [annotation(1, "a", "known", recording="1.wav"), annotation(3, "a", "known", recording="1.wav")]
    worked_on = {
        "another label": [found[0], replace(found[1], label="b")],
        "one mark less": found[:1],
        "one mark more": [*found, annotation(7, "b", recording="1.wav")],
    }[change]
    write_annotations(out / "1.wav.outlark.csv", found, format="csv")
    write_annotations(out / "1.wav.Table.1.selections.txt", worked_on, format="raven")
    matched = match_tables(out, out / "1.wav.Table.1.selections.txt")
    assert any("repeated in other files, counted once" in remark for remark in matched.remarks)
    assert len(matched.recordings[0].found) == len({(m.start_s, m.label) for m in (*found, *worked_on)})


def test_the_same_recording_under_a_shorter_name(tmp_path):
    write_annotations(tmp_path / "all.csv", [annotation(1, "a", recording="night.flac")], format="csv")
    write_annotations(tmp_path / "night.labels.txt", [annotation(1, "a"), annotation(2, "a")], format="audacity")
    matched = match_tables(tmp_path, tmp_path)
    assert [(r.name, len(r.truth), len(r.found)) for r in matched.recordings] == [("night.flac", 2, 2)]
    assert matched.remarks[0] == f"{tmp_path}: 1 annotation repeated in other files, counted once"


def test_how_long_recordings_are(tmp_path):
    soundfile.write(tmp_path / "1.wav", np.zeros(16000), 8000)
    (tmp_path / "audio").mkdir()
    soundfile.write(tmp_path / "audio/2.flac", np.zeros(24000), 8000)
    rows = [annotation(0.5, "a", recording=name) for name in ("1.wav", "2.wav", "3.wav")]
    write_annotations(tmp_path / "t.csv", rows, format="csv")
    matched = match_tables(tmp_path / "t.csv", tmp_path / "t.csv", audio=[tmp_path / "audio"])
    assert [r.duration_s for r in matched.recordings] == [2.0, 3.0, 1.0]
    assert matched.remarks[-1].startswith("the duration of 1 recording (3.wav) is unknown without the recording")


def test_two_tables_of_one_recording_need_no_names(tmp_path):
    write_annotations(tmp_path / "found.csv", [annotation(1, "a", recording="night.wav")], format="csv")
    write_annotations(tmp_path / "truth.labels.txt", [annotation(1, "a")], format="audacity")
    matched = match_tables(tmp_path / "found.csv", tmp_path / "truth.labels.txt")
    assert [(r.name, len(r.found)) for r in matched.recordings] == [("truth", 1)]
    assert "'night.wav' and 'truth' are taken as the same recording, because there are no others" in matched.remarks


def test_names_that_have_nothing_in_common(tmp_path):
    write_annotations(tmp_path / "found.csv", [annotation(1, "a", recording="night.wav")], format="csv")
    write_annotations(tmp_path / "truth.csv", [annotation(1, "a", recording="day.wav")], format="csv")
    with pytest.raises(
        InputError,
        match=r"no recording of .*truth.csv has detections in .*: the names are day.wav in the former and night",
    ):
        match_tables(tmp_path / "found.csv", tmp_path / "truth.csv")


def test_recordings_that_could_be_several(tmp_path):
    write_annotations(tmp_path / "found.csv", [annotation(1, "a", recording=f"{n}/1.wav") for n in "xy"], format="csv")
    write_annotations(tmp_path / "truth.csv", [annotation(1, "a", recording="1.wav")], format="csv")
    with pytest.raises(AnnotationError, match=r"'1.wav' could be 'x/1.wav' or 'y/1.wav'"):
        match_tables(tmp_path / "found.csv", tmp_path / "truth.csv")


def test_nothing_found_is_all_missed(tmp_path):
    write_annotations(tmp_path / "found.csv", [], format="csv")
    write_annotations(
        tmp_path / "truth.csv", [annotation(1, "a", recording=f"{i}.wav") for i in range(2)], format="csv"
    )
    matched = match_tables(tmp_path / "found.csv", tmp_path / "truth.csv")
    assert matched.missed == ("0.wav", "1.wav")


def test_a_folder_without_tables(tmp_path):
    (tmp_path / "readme.txt").write_text("soon")
    with pytest.raises(InputError, match=r"contains no readable annotation files; give an annotation file"):
        match_tables(tmp_path, tmp_path)


def test_predictions_without_labels_are_of_the_only_class(tmp_path):
    (tmp_path / "found.csv").write_text("Audiofilename,Starttime,Endtime\nn.wav,1,2\n")
    (tmp_path / "truth.csv").write_text("Audiofilename,Starttime,Endtime,Q\nn.wav,1.1,2,POS\nn.wav,4,5,UNK\n")
    matched = match_tables(tmp_path / "found.csv", tmp_path / "truth.csv")
    assert evaluate(matched.recordings, ["Q"]).dcase.pooled.f == 0.0
    assert evaluate(matched.naming_blanks("Q").recordings, ["Q"]).dcase.pooled.f == 1.0
    assert "1 true annotation without a label; detections there count neither way" in matched.remarks


def a_run(folder, *names, starts=(1, 4)):
    """An output folder of `outlark detect`, as far as annotation files go."""
    folder.mkdir(parents=True)
    for name in names:
        rows = [annotation(t, "a", "known", recording=name, score=2.0, reason="a 2.0 ≥ 1.0") for t in starts]
        about = About(version="0.1.0", model_sha256="ab" * 32)
        write_annotations(folder / f"{name}.Table.1.selections.txt", rows, format="raven", about=about)
    return folder


def test_detections_in_a_folder_of_truth_are_passed_over(tmp_path):
    """The output folder lies within the folder of recordings and annotations."""
    out = a_run(tmp_path / "found", "1.wav")
    write_annotations(tmp_path / "1.Table.1.selections.txt", [annotation(1, "a"), annotation(7, "a")], format="raven")
    matched = match_tables(out, tmp_path)
    (one,) = matched.recordings
    assert [m.start_s for m in one.truth] == [1.0, 7.0]
    assert [m.start_s for m in one.found] == [1.0, 4.0]
    assert any("found/1.wav" in remark and "passed over" in remark for remark in matched.remarks)
    both = match_tables(tmp_path, tmp_path).recordings[0]  # detections written beside the recordings
    assert ([m.start_s for m in both.truth], [m.start_s for m in both.found]) == ([1.0, 7.0], [1.0, 4.0])


def test_swapped_arguments_are_noticed(tmp_path):
    out = a_run(tmp_path / "found", "1.wav")
    truth = tmp_path / "1.txt"
    write_annotations(truth, [annotation(1, "a")], format="raven")
    for swapped in (out, out / "1.wav.Table.1.selections.txt"):
        with pytest.raises(InputError, match="seem to be swapped") as told:
            match_tables(truth, swapped)
        assert f"outlark evaluate {swapped} {truth}" in str(told.value)
    with pytest.raises(InputError, match="seem to be swapped"):
        match_tables(tmp_path, out)  # the output folder lies within that of the annotations
    with pytest.raises(InputError, match="no truth"):
        match_tables(out, out)


def test_a_folder_that_somebody_corrected_is_truth_if_they_say_so(tmp_path):
    out = a_run(tmp_path / "found", "1.wav")
    corrected = a_run(tmp_path / "corrected", "1.wav", starts=(1,))
    with pytest.raises(InputError, match="--corrected"):
        match_tables(out, corrected)
    assert len(match_tables(out, corrected, corrected=True).recordings[0].truth) == 1
    by_name = match_tables(out, corrected / "1.wav.Table.1.selections.txt")
    assert len(by_name.recordings[0].truth) == 1
    assert any("taken as checked" in remark for remark in by_name.remarks)


def test_rows_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "found.csv").write_text("recording,start_s,end_s,label\n1.wav,1,2,a\n")
    (tmp_path / "truth.csv").write_text("recording,start_s,end_s,label\n1.wav,1,2,a\n1.wav,,2,a\n")
    matched = match_tables(tmp_path / "found.csv", tmp_path / "truth.csv")
    assert len(matched.recordings[0].truth) == 1
    assert f"{tmp_path / 'truth.csv'}, line 3" in matched.refused[0]


def test_recordings_of_names_that_differ_in_case_alone_are_reported(tmp_path):
    write_annotations(tmp_path / "found.csv", [annotation(1, "a", recording="Night.wav")], format="csv")
    write_annotations(tmp_path / "truth.csv", [annotation(1, "a", recording="night.wav")], format="csv")
    matched = match_tables(tmp_path / "found.csv", tmp_path / "truth.csv")
    assert len(matched.recordings[0].found) == 1
    assert any("'night.wav' and 'Night.wav'" in remark for remark in matched.remarks)
