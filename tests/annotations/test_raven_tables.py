"""Raven tables as they come."""

import pytest

from outlark.annotations import Annotation, read_annotations, write_annotations
from outlark.errors import AnnotationError, InputError
from tests.annotations.made_marks import table, tabs

HEADER = tabs("Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)")


def row(selection, begin, end, *more, view="Spectrogram 1", low="1000.5", high="8000.0"):
    return tabs(selection, view, 1, begin, end, low, high, *more)


BARE = tabs("Begin Time (s)", "End Time (s)", "Annotation")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([tabs(HEADER, "Annotation"), row(1, 1, 2, "a", low=1000, high=8000)], [(1.0, 2.0, "a", 1000.0, 8000.0, 1)]),
        ([tabs(HEADER, "Species"), row(1, 1.5, 2.5, "b")], [(1.5, 2.5, "b", 1000.5, 8000.0, 1)]),
        ([BARE, tabs(1.5, 2.5, ""), tabs(3, 4, "b")], [(1.5, 2.5, None, *[None] * 3), (3.0, 4.0, "b", *[None] * 3)]),
        ([tabs(HEADER, "Annotation")], []),
    ],
    ids=["whole numbers", "species", "no frequencies and a blank label", "no rows"],
)
def test_what_other_readers_of_selection_tables_refuse(lines, expected, tmp_path):
    found = read_annotations(table(tmp_path, *lines))
    assert found.format == "raven"
    fields = [(m.start_s, m.end_s, m.label, m.low_hz, m.high_hz, m.channel) for m in found.annotations]
    assert fields == expected


def test_audacity_labels_of_birdnet_with_a_fourth_column(tmp_path):
    found = read_annotations(table(tmp_path, tabs("0.0", "3.0", "Tufted Titmouse", "0.81")))
    assert found.format == "audacity"
    assert (found.annotations[0].label, found.annotations[0].score) == ("Tufted Titmouse", 0.81)


def test_audacity_labels_with_frequency_lines(tmp_path):
    found = read_annotations(
        table(tmp_path, tabs("0.1", "0.4", "SP"), tabs("\\", "6441.06", "12296.58"), tabs("1", "2", "b"))
    )
    found = [(m.label, m.low_hz, m.high_hz) for m in found.annotations]
    assert found == [("SP", 6441.06, 12296.58), ("b", None, None)]


def test_extra_columns_are_kept_from_table_to_table(tmp_path):
    lines = tabs(HEADER, "Annotation", "Site", "Peak Freq (Hz)"), row(1, 1.5, 2.5, "a", "north", "4312.5")
    found = read_annotations(table(tmp_path, *lines))
    assert found.annotations[0].more == {"Site": "north", "Peak Freq (Hz)": "4312.5"}
    write_annotations(tmp_path / "again.txt", found.annotations, format="raven")
    assert read_annotations(tmp_path / "again.txt").annotations[0].more == found.annotations[0].more


# What else is about.


def test_waveform_rows_that_repeat_a_selection_are_left_out(tmp_path):
    lines = [tabs(HEADER, "Annotation")]
    for i in (1, 2):
        lines += [row(i, i, i + 0.5, "a", view="Waveform 1"), row(i, i, i + 0.5, "a")]
    lines.append(row(3, 7, 8, "only here", view="Waveform 1"))
    found = read_annotations(table(tmp_path, *lines))
    assert [(m.start_s, m.label) for m in found.annotations] == [(1, "a"), (2, "a"), (7, "only here")]
    assert "2 waveform rows skipped: they repeat a selection" in found.remarks


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_line_ends_and_encodings(end, encoding, tmp_path):
    path = table(tmp_path, tabs(HEADER, "Annotation"), row(1, 1, 2, "Blåmes"), end=end, encoding=encoding)
    found = read_annotations(path)
    assert [annotation.label for annotation in found.annotations] == ["Blåmes"]
    assert found.remarks == ("labels from the column 'Annotation'",)


def test_latin_1_is_read_and_remarked(tmp_path):
    found = read_annotations(table(tmp_path, tabs(HEADER, "Annotation"), row(1, 1, 2, "Blåmes"), encoding="latin-1"))
    assert found.annotations[0].label == "Blåmes"
    assert "not UTF-8; read as Windows-1252 (Latin-1)" in found.remarks


def test_columns_in_any_order_and_quoted_as_r_writes_them(tmp_path):
    path = table(tmp_path, '"Annotation"\t"End Time (s)"\t"Begin Time (s)"', '"a ""b"""\t2.5\t1.5')
    (annotation,) = read_annotations(path).annotations
    assert (annotation.label, annotation.start_s, annotation.end_s) == ('a "b"', 1.5, 2.5)


def test_commas_instead_of_tabs_as_a_spreadsheet_saves_it(tmp_path):
    path = table(tmp_path, "Selection,Begin Time (s),End Time (s),Species", '1,1.5,2.5,"a, b"', name="a.csv")
    found = read_annotations(path)
    assert (found.format, found.annotations[0].label) == ("raven", "a, b")


def test_decimal_commas(tmp_path):
    path = table(tmp_path, tabs(HEADER, "Annotation"), row(1, "154,387792767", "154,9", "a", low="0,5", high="8000,0"))
    (one,) = read_annotations(path).annotations
    assert (one.start_s, one.end_s, one.low_hz, one.high_hz) == (154.387792767, 154.9, 0.5, 8000.0)


def test_the_duration_stands_in_for_a_missing_end_and_is_kept_beside_one(tmp_path):
    columns = "Begin Time (s)", "Delta Time (s)", "Annotation"
    (annotation,) = read_annotations(table(tmp_path, tabs(*columns), tabs(0.1, 0.2, "a"))).annotations
    assert (annotation.start_s, annotation.end_s, annotation.more) == (0.1, 0.3, {})
    lines = tabs("End Time (s)", *columns), tabs(2, 1, 1, "a"), tabs(3, 2, "", "b")
    annotations = read_annotations(table(tmp_path, *lines)).annotations
    assert [(m.end_s, m.more) for m in annotations] == [(2, {"Delta Time (s)": "1"}), (3, {})]


# Which column holds the labels.


@pytest.mark.parametrize(
    ("columns", "cells", "expected"),
    [
        (["species"], ["x"], "x"),
        (["Common Name", "Species Code", "Confidence"], ["Titmouse", "tuti", "0.9"], "Titmouse"),
        (["Comments", "My call"], ["nice", "chip"], "chip"),
        (["SNR", "Ruf"], ["12.5", "chip"], "chip"),
        (["Annotation", "Species"], ["", "EATO"], "EATO"),
        (["Begin File", "Sound"], ["a.wav", "chip"], "chip"),
        (["SNR"], ["12.5"], None),
    ],
)
def test_the_label_column_is_guessed_and_told(columns, cells, expected, tmp_path):
    found = read_annotations(table(tmp_path, tabs(HEADER, *columns), row(1, 1.5, 2.5, *cells)))
    assert found.annotations[0].label == expected
    chosen = next((c for c, cell in zip(columns, cells, strict=True) if cell == expected), None)
    assert any((f"column {chosen!r}" if chosen else "no label column") in remark for remark in found.remarks)


def test_other_columns_that_could_hold_labels_are_told(tmp_path):
    found = read_annotations(table(tmp_path, tabs(HEADER, "Call", "Species"), row(1, 1.5, 2.5, "song", "EATO")))
    assert found.annotations[0].label == "EATO"
    assert found.remarks == ("labels from the column 'Species' (not ['Call']; label_column= chooses)",)


@pytest.mark.parametrize("label_column", ["Call Type", "call_type", 9, "9"])
def test_the_label_column_by_name_or_number(label_column, tmp_path):
    path = table(tmp_path, tabs(HEADER, "Species", "Call Type"), row(1, 1.5, 2.5, "EATO", "song"))
    (annotation,) = read_annotations(path, label_column=label_column).annotations
    assert (annotation.label, annotation.more) == ("song", {"Species": "EATO"})


@pytest.mark.parametrize("label_column", ["Kind", 0, 10])
def test_a_label_column_that_is_not_there(label_column, tmp_path):
    path = table(tmp_path, tabs(HEADER, "Species", "Call Type"), row(1, 1.5, 2.5, "EATO", "song"))
    with pytest.raises(AnnotationError, match=rf"no label column '?{label_column}.* give one of .*'Species'"):
        read_annotations(path, label_column=label_column)


# Several recordings in one table.


def test_each_mark_has_its_recording_and_the_time_within_it(tmp_path):
    columns = ("Annotation", "Begin File", "Begin Path", "File Offset (s)")
    path = table(
        tmp_path,
        tabs(HEADER, *columns),
        row(1, 1.5, 2.5, "a", "x.wav", "d/x.wav", 1.5),
        row(2, 61.5, 62.75, "b", "y.wav", "d/y.wav", 1.5),
    )
    annotations = read_annotations(path).annotations
    assert [(m.recording, m.start_s, m.end_s) for m in annotations] == [("d/x.wav", 1.5, 2.5), ("d/y.wav", 1.5, 2.75)]
    assert [m.more for m in annotations] == [{}, {}]


def test_several_recordings_without_offsets_whose_times_overlap(tmp_path):
    lines = row(1, 1.5, 2.5, "a", "x.wav"), row(2, 9, 10, "a", "x.wav"), row(3, 2, 3, "b", "y.wav")
    found = read_annotations(table(tmp_path, tabs(HEADER, "Annotation", "Begin File"), *lines))
    assert [(m.recording, m.start_s) for m in found.annotations] == [("x.wav", 1.5), ("x.wav", 9), ("y.wav", 2)]
    assert "2 recordings; begin times are taken to count within each of them" in found.remarks


@pytest.mark.parametrize("order", [1, -1])
def test_several_recordings_on_one_clock_cannot_be_told(order, tmp_path):
    lines = [row(1, 1.5, 2.5, "a", "x.wav"), row(2, 61.5, 62, "b", "y.wav")][::order]
    with pytest.raises(AnnotationError, match=r"line 3: selections of 2 recordings without a column 'File Offset"):
        read_annotations(table(tmp_path, tabs(HEADER, "Annotation", "Begin File"), *lines))


def test_begin_times_run_over_all_recordings_where_their_durations_are_known(tmp_path):
    annotations = [
        Annotation(start_s=1.5, end_s=2, label="a", recording="x.wav"),
        Annotation(start_s=3, end_s=4, recording="z.wav"),
    ]
    durations = {"x.wav": 60.0, "y.wav": 30.0, "z.wav": 60.0}
    write_annotations(tmp_path / "a.txt", annotations, format="raven", durations=durations)
    lines = (tmp_path / "a.txt").read_text().split("\n")
    assert [line.split("\t")[3:5] for line in lines[1:3]] == [["1.5", "2.0"], ["93.0", "94.0"]]
    assert [(m.recording, m.start_s, m.end_s) for m in read_annotations(tmp_path / "a.txt").annotations] == [
        ("x.wav", 1.5, 2.0),
        ("z.wav", 3.0, 4.0),
    ]
    with pytest.raises(InputError, match=r"durations has no entry for 'z\.wav'; give the durations of all recordings"):
        write_annotations(tmp_path / "a.txt", annotations, format="raven", durations={"x.wav": 60.0})


def test_frequencies_that_nobody_knows_fill_the_band_and_say_so(tmp_path):
    annotations = [
        Annotation(start_s=0, end_s=1, label="a", sample_rate=48000),
        Annotation(start_s=1, end_s=2, label="b"),
        Annotation(start_s=2, end_s=3, label="c", low_hz=100, high_hz=200),
    ]
    write_annotations(tmp_path / "a.txt", annotations, format="raven")
    rows = [line.split("\t") for line in (tmp_path / "a.txt").read_text().split("\n")[1:4]]
    assert [(cells[5], cells[6], cells[13]) for cells in rows] == [
        ("0.0", "24000.0", "whole band"),
        ("0.0", "24000.0", "whole band"),
        ("100.0", "200.0", "measured"),
    ]
    write_annotations(tmp_path / "a.txt", annotations[1:2], format="raven")
    assert (tmp_path / "a.txt").read_text().split("\n")[1].split("\t")[6] == "11025.0"


def test_a_blank_verdict_in_our_own_table_makes_no_class_of_unknown(tmp_path):
    path = tmp_path / "x.Table.1.selections.txt"
    notes = [
        Annotation(start_s=0.0, end_s=0.1, verdict="unknown"),
        Annotation(start_s=0.2, end_s=0.3, label="a", verdict="ambiguous", runner_up="b"),
        Annotation(start_s=0.4, end_s=0.5, label="a", verdict="known"),
    ]
    write_annotations(path, notes, format="raven")
    header, *rows = [line.split("\t") for line in path.read_text().splitlines()]
    for cells in rows:
        cells[header.index("Verdict")] = ""  # as a spreadsheet may leave it
    path.write_text("".join("\t".join(cells) + "\n" for cells in (header, *rows)))
    read = read_annotations(path).annotations
    assert [(one.label, one.verdict) for one in read] == [(None, "unknown"), ("a", "ambiguous"), ("a", None)]
