"""Kaleidoscope, BirdNET, DCASE, and CSV of others."""

import csv

import pytest

from outlark.annotations import Annotation, read_annotations, write_annotations
from outlark.errors import AnnotationError
from tests.annotations.made_marks import ANNOTATIONS, table


def test_kaleidoscope(tmp_path):
    lines = (
        "INDIR,FOLDER,IN FILE,CHANNEL,OFFSET,DURATION,TOP1MATCH,TOP1DIST",
        "/rec,site1,a.wav,0,0.1,0.2,cluster3,0.45",
    )
    found = read_annotations(table(tmp_path, *lines))
    (annotation,) = found.annotations
    assert found.format == "kaleidoscope"
    assert (annotation.recording, annotation.start_s, annotation.end_s) == ("/rec/site1/a.wav", 0.1, 0.3)
    assert (annotation.label, annotation.score) == ("cluster3", -0.45)  # a distance: near is high
    assert (annotation.channel, annotation.more) == (1, {})  # counted from 0 there


def test_kaleidoscope_labels_by_hand_go_first(tmp_path):
    lines = (
        "INDIR,FOLDER,IN FILE,OFFSET,DURATION,TOP1MATCH,TOP1DIST,MANUAL ID",
        r"C:\rec,site1,a.wav,1,2,cluster3,0.45,song",
        "/rec,,b.wav,1,2,cluster3,0.45,",
    )
    found = read_annotations(table(tmp_path, *lines))
    assert [(m.label, m.recording) for m in found.annotations] == [
        ("song", "C:/rec/site1/a.wav"),
        ("cluster3", "/rec/b.wav"),
    ]
    assert found.annotations[0].more == {"TOP1MATCH": "cluster3"}
    assert found.remarks == ("manual labels (MANUAL ID) override those of the program",)
    assert read_annotations(found.path, label_column="TOP1MATCH").annotations[0].label == "cluster3"


def test_kaleidoscope_bats_have_an_auto_id(tmp_path):
    (annotation,) = read_annotations(
        table(tmp_path, "INDIR,FOLDER,IN FILE,OFFSET,DURATION,AUTO ID*,Fmin", "d,e,a.wav,0,5,MYLU,45.1")
    ).annotations
    assert (annotation.label, annotation.recording) == ("MYLU", "d/e/a.wav")
    assert (annotation.low_hz, annotation.more) == (None, {"Fmin": "45.1"})  # in kHz


def test_kaleidoscope_gets_what_its_viewer_uses(tmp_path):
    """Where the recording is, the channel counted from 0, the band in Hz, and a column for labels by hand."""
    found = Annotation(
        start_s=1, end_s=2, label="a", verdict="known", recording="/rec/x/night.wav", channel=2, low_hz=2e3, high_hz=8e3
    )
    by_hand = Annotation(start_s=3, end_s=4, label="b", recording="/rec/x/night.wav")
    write_annotations(tmp_path / "a.csv", [found, by_hand], format="kaleidoscope")
    with (tmp_path / "a.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert [first[name] for name in ("INDIR", "FOLDER", "IN FILE", "CHANNEL")] == ["/rec", "x", "night.wav", "1"]
    assert [first[name] for name in ("Fmin", "Fmax", "TOP1MATCH", "MANUAL ID")] == ["2000.0", "8000.0", "a", ""]
    assert [second[name] for name in ("CHANNEL", "TOP1MATCH", "MANUAL ID", "ANALYSED")] == ["0", "", "b", "mix"]
    text = (tmp_path / "a.csv").read_text().replace(",a,,,", ",a,,c,")  # somebody labels the first
    (tmp_path / "a.csv").write_text(text)
    again = read_annotations(tmp_path / "a.csv").annotations
    assert [(m.label, m.verdict, m.channel) for m in again] == [("c", None, 2), ("b", None, None)]


def test_birdnet(tmp_path):
    lines = (
        "Start (s),End (s),Scientific name,Common name,Confidence,File,lat",
        "0.0,3.0,Baeolophus bicolor,Tufted Titmouse,0.8134,/data/a.wav,42.5",
    )
    found = read_annotations(table(tmp_path, *lines))
    (annotation,) = found.annotations
    assert found.format == "birdnet"
    assert (annotation.label, annotation.score, annotation.recording) == ("Tufted Titmouse", 0.8134, "/data/a.wav")
    assert annotation.more == {"Scientific name": "Baeolophus bicolor", "lat": "42.5"}
    assert read_annotations(found.path, label_column="Scientific name").annotations[0].label == "Baeolophus bicolor"


def test_birdnet_selection_table(tmp_path):
    header = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tHigh Freq (Hz)\tCommon Name"
    header += "\tSpecies Code\tConfidence\tBegin Path\tFile Offset (s)"
    row = "1\tSpectrogram 1\t1\t63.0\t66.0\t0\t15000\tTufted Titmouse\ttuftit\t0.8134\t/data/b.wav\t3.0"
    (annotation,) = read_annotations(table(tmp_path, header, row)).annotations
    assert (annotation.label, annotation.score, annotation.recording) == ("Tufted Titmouse", 0.8134, "/data/b.wav")
    assert (annotation.start_s, annotation.end_s) == (3.0, 6.0)


def test_dcase_reference(tmp_path):
    lines = "Audiofilename,Starttime,Endtime,Q", "a.wav,1,2,POS", "a.wav,3,4,UNK", "a.wav,5,6,NEG"
    found = read_annotations(table(tmp_path, *lines))
    assert found.format == "dcase"
    assert [(m.start_s, m.label, m.verdict, m.more) for m in found.annotations] == [
        (1.0, "Q", "known", {}),
        (3.0, None, "unknown", {"Q": "UNK"}),
    ]
    assert found.remarks == ("1 rows skipped: neither POS nor UNK in ['Q']",)


def test_dcase_reference_of_several_classes(tmp_path):
    lines = "Audiofilename,Starttime,Endtime,AMRE,BBWA", "a.wav,1,2,POS,NEG", "a.wav,3,4,pos,POS", "a.wav,5,6,NEG,UNK"
    path = table(tmp_path, *lines)
    assert [(m.start_s, m.label) for m in read_annotations(path).annotations] == [
        (1, "AMRE"),
        (3, "AMRE"),
        (3, "BBWA"),
        (5, None),
    ]
    assert [(m.start_s, m.label) for m in read_annotations(path, label_column="BBWA").annotations] == [
        (3, "BBWA"),
        (5, None),
    ]


def test_dcase_gets_known_notes_with_a_recording(tmp_path):
    write_annotations(
        tmp_path / "a.csv", [*ANNOTATIONS, Annotation(start_s=1, end_s=2, recording="x.wav")], format="dcase"
    )
    assert len(read_annotations(tmp_path / "a.csv").annotations) == 4
    with pytest.raises(AnnotationError, match=r"an annotation at 1.0 s has no recording, which DCASE predictions need"):
        write_annotations(tmp_path / "a.csv", [Annotation(start_s=1, end_s=2, label="a")], format="dcase")


def test_csv_of_others(tmp_path):
    lines = "file,begin_s,end_s,low_hz,high_hz,label,site", "a.flac,0.5,1.5,,,bird,north", "b.flac,2,3,100,200,bird,"
    found = read_annotations(table(tmp_path, *lines))
    assert found.format == "csv"
    assert [(m.recording, m.low_hz, m.high_hz, m.more) for m in found.annotations] == [
        ("a.flac", None, None, {"site": "north"}),
        ("b.flac", 100.0, 200.0, {}),
    ]


def test_seconds_that_were_changed_by_hand_hold(tmp_path):
    path = tmp_path / "a.csv"
    write_annotations(path, ANNOTATIONS[1:2], format="csv")
    assert read_annotations(path).annotations[0].start_s == 6600 / 22050
    path.write_text(path.read_text(encoding="utf-8").replace("0.299319728,", "0.25,", 1), encoding="utf-8")
    assert read_annotations(path).annotations[0].start_s == 0.25


def test_own_csv_with_a_row_added_in_a_spreadsheet(tmp_path):
    path = tmp_path / "a.csv"
    write_annotations(path, ANNOTATIONS[:2], format="csv")
    whole = read_annotations(path)
    header = path.read_text(encoding="utf-8").splitlines()[0].split(",")
    row = dict(dict.fromkeys(header, ""), start_s="7", end_s="8", label="new")
    with path.open("a", encoding="utf-8") as file:
        file.write(",".join(row.values()) + "\n")
    found = read_annotations(path)
    assert (found.about, found.refused) == (whole.about, ())
    assert (found.annotations[-1].label, found.annotations[-1].start_s) == ("new", 7.0)


def test_own_csv_with_a_broken_cell(tmp_path):
    path = tmp_path / "a.csv"
    write_annotations(path, ANNOTATIONS, format="csv")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(",known,", ",sure,", 1), encoding="utf-8")
    found = read_annotations(path)
    assert (found.annotations[1].verdict, found.annotations[1].label) == (None, ANNOTATIONS[1].label)
    assert any("'sure'" in remark and "line 3" in remark for remark in found.remarks)
    path.write_text(text.replace(",1,0.1.0,", ",2,0.1.0,", 1), encoding="utf-8")
    with pytest.raises(AnnotationError, match=r"a.csv, line 2: schema '2', written by a newer outlark"):
        read_annotations(path)


def test_rows_of_several_runs_say_so(tmp_path):
    path = tmp_path / "a.csv"
    write_annotations(path, ANNOTATIONS, format="csv")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("0.1.0", "0.0.9", 1), encoding="utf-8")
    found = read_annotations(path)
    assert (found.about, len(found.annotations)) == ({}, len(ANNOTATIONS))
    assert found.remarks == ("rows of 2 runs of outlark, with different versions, models or settings",)


def test_numbers_in_audacity_labels_of_others_stay(tmp_path):
    found = read_annotations(table(tmp_path, "0.5\t1.0\ttone 10.25"))
    assert (found.annotations[0].label, found.annotations[0].score) == ("tone 10.25", None)
    assert "'tone 10.25' and the like are taken as labels" in found.remarks[0]
