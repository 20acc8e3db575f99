"""Tables broken by hand: each is read rightly, or what is wrong is named with file and line."""

import re

import pytest

from outlark.annotations import read_annotations
from outlark.errors import AnnotationError
from tests.annotations.made_marks import tabs

RAVEN = tabs("Selection", "Begin Time (s)", "End Time (s)", "Annotation")
CSV = "recording,start_s,end_s,label"
DCASE = "Audiofilename,Starttime,Endtime,Q"
KALEIDOSCOPE = "INDIR,FOLDER,IN FILE,OFFSET,DURATION,TOP1MATCH"
JSON = '{"start_s": 1, "end_s": 2, "label": "a"}'

ERRORS = {
    "end before start": ([RAVEN, tabs(1, 2.5, 1.5, "a")], r"line 2: the end, 1.5 s, is before the start, 2.5 s"),
    "negative": ([RAVEN, tabs(1, -0.5, 1.5, "a")], r"line 2: the start, -0.5 s, is negative"),
    "nan": ([RAVEN, tabs(1, "NaN", 1.5, "a")],
            r"line 2: column 'Begin Time \(s\)': 'NaN' is not a number; expected sec"),
    "infinite": ([RAVEN, tabs(1, 0, 1, "a"), tabs(2, 1, "inf", "a")], r"line 3: column 'End Time \(s\)': 'inf' is no"),
    "too large": ([RAVEN, tabs(1, 0, "1e300", "a")], r"line 2: the end, 1e\+300 s, is years away"),
    "overflow": ([RAVEN, tabs(1, 0, "1e999", "a")], r"line 2: end_s=inf must be a finite number"),
    "text in a time": ([RAVEN, tabs(1, "early", 1.5, "a")],
                       r"line 2: column 'Begin Time \(s\)': 'early' is not a number"),
    "clock in a time": ([CSV, "a.wav,00:01:02,00:01:03,a"], r"line 2: column 'start_s': '00:01:02' is not a number"),
    "underscore": ([CSV, "a.wav,1_0,2_0,a"], r"line 2: column 'start_s': '1_0' is not a number"),
    "blank time": ([RAVEN, tabs(1, 0, "", "a")], r"line 2: column 'End Time \(s\)': the cell is blank; expected"),
    "no end column": ([tabs("Selection", "Begin Time (s)"), tabs(1, 2)], r"line 1: no column for the end; expected"),
    "no start column": ([CSV.replace("start_s", "x"), "a,1,2,b"], r"line 1: .* is not the start of a known format"),
    "row too long": ([RAVEN, tabs(1, 0, 1, "a", "b")], r"line 2: 5 cells, but the header has 4 columns; .* is 'b'"),
    "quoted line break before": ([CSV, 'a.wav,0,1,"a', 'b"', "a.wav,3,2,d"], r"line 4: the end"),
    "row too short": ([CSV, "a.wav,1"], r"line 2: column 'end_s': the cell is blank"),
    "open quote": ([CSV, 'a.wav,1,2,"song', "b.wav,3,4,b"], r"line 2: the row that begins here cannot be read"),
    "quote in the middle": ([CSV, "x,0,1,a", 'a.wav,1,2,"so"ng'], r"line 3: the row that begins here cannot be read"),
    "huge cell": ([CSV, f"a.wav,1,2,{'x' * 200_000}"], r"line 2: the row that begins here .*field larger"),
    "thousands or decimals": ([RAVEN, tabs(1, "1,500", "2,500", "a")], r"line 2: .*'1,500' could be 1.5 or 1500"),
    "thousands": ([RAVEN, tabs(1, "1,500.5", "2", "a")], r"line 2: .*'1,500.5' is not a number"),
    "low above high": ([tabs(RAVEN, "Low Freq (Hz)", "High Freq (Hz)"), tabs(1, 0, 1, "a", 9000, 200)],
                       r"line 2: the low frequency, 9000 Hz, is above the high one, 200 Hz"),
    "audacity text in a time": ([tabs(0, 1, "a"), tabs("x", 2, "b")], r"line 2: 'x' is not a number; expected start"),
    "audacity spaces": ([tabs(0, 1, "a"), "1.0 2.0 b"], r"line 2: 1 cells between tabs; expected start, end and text"),
    "audacity five cells": ([tabs(0, 1, "a"), tabs(1, 2, "b", 0.5, 7)], r"line 2: 5 cells between tabs"),
    "audacity fourth cell": ([tabs(0, 1, "a", "b")], r"line 1: the fourth cell, 'b' is not a number; expected a score"),
    "audacity backwards": ([tabs(0, 1, "a"), tabs(3, 2, "b")], r"line 2: the end, 2.0 s, is before the start"),
    "audacity frequencies": ([tabs(0, 1, "a"), tabs("\\", 5)], r"line 2: a frequency line of 2 cells"),
    "audacity frequencies swapped": ([tabs(0, 1, "a"), tabs("\\", 500, 5)], r"line 2: the low frequency, 500 Hz, is"),
    "dcase value": ([DCASE, "a.wav,1,2,POS", "a.wav,3,4,YES"], r"line 3: column 'Q' is 'YES'; expected POS, UNK or"),
    "dcase time": ([DCASE, "a.wav,1,x,POS"], r"line 2: column 'Endtime': 'x' is not a number"),
    "kaleidoscope duration": ([KALEIDOSCOPE, ",,a.wav,1,-2,x"], r"line 2: the end, -1.0 s, is before the start"),
    "json cut in the middle": ([JSON, JSON[:-5], JSON], r"line 2: not JSON"),
    "json key twice": ([JSON, JSON[:-1] + ', "label": "b"}', JSON], r"line 2: the key 'label' occurs twice; keep"),
    "json key twice at the end": ([JSON, JSON[:-1] + ', "label": "b"}'], r"line 2: the key 'label' occurs twice"),
    "json key twice within": ([JSON, '{"x": {"a": 1, "a": 2}}'], r"line 2: the key 'a' occurs twice"),
    "json list": ([JSON, "[1, 2]"], r"line 2: '\[1, 2\]'; expected a JSON object"),
    "json nan": ([JSON, JSON.replace("2", "NaN")], r"line 2: not JSON \(NaN is not a JSON number\)"),
    "json missing time": ([JSON, '{"start_s": 1, "label": "a"}'], r"line 2: column 'end_s': the cell is blank"),
    "json nested": ([JSON, '{"start_s": [1], "end_s": 2}'], r"line 2: 'start_s' is \[1\]; expected text, a number"),
    "json newer": (['{"outlark": {"schema": 2}}'], r"line 1: schema 2, written by a newer outlark.*pip install -U"),
    "prose": (["Dear all,", "the labels are below."], r"line 1: 'Dear all,' is not the start of a known format"),
    "no header": (["a.wav,0.5,1.5,song"], r"line 1: 'a.wav,0.5,1.5,song' is not the start of a known format"),
    "zero byte": ([RAVEN, tabs(1, 0, 1, "a") + "\0\0\0"], r"line 2: a zero byte; the file is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_names_file_and_line(case, tmp_path):
    lines, message = ERRORS[case]
    path = tmp_path / "broken.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        (said,) = read_annotations(path).refused
    except AnnotationError as error:
        said = str(error)
    assert re.match(rf"{path}, {message}", said)


REFUSED = {
    "raven": [RAVEN, tabs(1, 0, 1, "a"), tabs(2, "", 2, "b"), tabs(3, 2, 3, "c")],
    "row too long": [RAVEN, tabs(1, 0, 1, "a"), tabs(2, 1, 2, "b", "c"), tabs(3, 2, 3, "c")],
    "csv": [CSV, "x.wav,0,1,a", "x.wav,2,1,b", "x.wav,2,3,c"],
    "two recordings and none": [CSV, "x.wav,0,1,a", ",1,2,b", "y.wav,2,3,c"],
    "dcase": ["Audiofilename,Starttime,Endtime,a,c", "x,0,1,POS,NEG", "x,1,2,YES,NEG", "x,2,3,NEG,POS"],
    "kaleidoscope": [KALEIDOSCOPE, ",,a.wav,0,1,a", ",,a.wav,1,,b", ",,a.wav,2,1,c"],
    "birdnet": ["Start (s),End (s),Scientific name,Common name", "0,1,a,a", "x,2,b,b", "2,3,c,c"],
    "audacity": [tabs(0, 1, "a"), tabs("x", 2, "b"), tabs("\\", 100, 200), tabs(2, 3, "c")],
    "json": [JSON.replace("1", "0"), "[1]", JSON.replace('"a"', '"c"')],
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_row_is_refused_and_not_the_file(case, tmp_path):
    path = tmp_path / "broken.txt"
    path.write_text("\n".join(REFUSED[case]) + "\n", encoding="utf-8")
    table = read_annotations(path)
    assert [annotation.label for annotation in table.annotations] == ["a", "c"]
    line = 2 if case in ("audacity", "json") else 3
    assert [said.startswith(f"{path}, line {line}: ") for said in table.refused] == [True]
    assert table.annotations[0].low_hz is None


BLANK = {
    "offset": ("x.wav", "/disk/x.wav", ""),
    "path": ("x.wav", "", 0.5),
    "all that tells the recording": ("", "", ""),
}


@pytest.mark.parametrize("case", BLANK)
def test_blank_cells_of_a_row_that_somebody_added_are_filled_in(case, tmp_path):
    """Raven's begin times run over all open files: this recording begins at 10 s."""
    path = tmp_path / "a.txt"
    header = tabs(RAVEN, "Begin File", "Begin Path", "File Offset (s)")
    rows = [tabs(1, 12, 12.5, "a", "x.wav", "/disk/x.wav", 2), tabs(2, 10.5, 11, "b", *BLANK[case])]
    path.write_text("\n".join([header, *rows]) + "\n")
    table = read_annotations(path)
    found = [(m.recording, m.start_s, m.end_s, m.label) for m in table.annotations]
    assert found == [("/disk/x.wav", 2.0, 2.5, "a"), ("/disk/x.wav", 0.5, 1.0, "b")]
    assert table.refused == ()


def test_an_offset_that_nothing_tells_is_refused(tmp_path):
    """No other row says where this recording begins."""
    path = tmp_path / "a.txt"
    header = tabs(RAVEN, "Begin File", "File Offset (s)")
    rows = [tabs(1, 12, 12.5, "a", "x.wav", 2), tabs(2, 20.5, 21, "b", "y.wav", "")]
    path.write_text("\n".join([header, *rows]) + "\n")
    table = read_annotations(path)
    assert [m.label for m in table.annotations] == ["a"]
    assert "line 3" in table.refused[0]


def test_one_odd_cell_does_not_cost_the_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("start_s,end_s,label,verdict\n0,1,a,known\n1,2,,unknown\n2,3,b,sure\n")
    table = read_annotations(path)
    assert [(m.label, m.verdict) for m in table.annotations] == [("a", "known"), (None, "unknown"), ("b", None)]
    assert any("line 4" in remark for remark in table.remarks)


READ_RIGHTLY = {
    "blank lines": [RAVEN, "", tabs(1, 0.5, 1, "a"), "", ""],
    "blank cells at the end": [RAVEN, tabs(1, 0.5, 1, "a", "", "")],
    "only separators": [CSV, "x.wav,0.5,1,a", ",,,"],
    "no line end at the end": [CSV, "x.wav,0.5,1,a\r"],
    "spaces around": [tabs(" Begin Time (s) ", "End Time (s)", "Annotation "), tabs(" 0.5", "1 ", " a ")],
    "other names": ["File;Onset;Offset;Type", "x.wav;0,5;1,0;a"],
    "duration": ["file,begin,duration,species", "x.wav,0.5,0.5,a"],
    "leading blank lines": ["", "", CSV, "x.wav,0.5,1,a"],
    "header twice the same": ["start_s,end_s,label,label", "0.5,1,a,b"],
    "index column of pandas": [",start_s,end_s,label", "0,0.5,1,a"],
    "guard": [CSV, "x.wav,0.5,1,a"],
    "point and comma": [tabs("0.5", "1", "a")],
    "powers of ten": [CSV, "x.wav,5e-1,1E0,a"],
    "audacity decimal commas": [tabs("0,500000", "1,000000", "a")],
    "audacity without bounds": [tabs("0.5", "1", "a"), tabs("\\", "-1", "-1")],
    "quoted line break": [CSV, '"x\ny.wav",0.5,1,a'],
    "odd score": ["start_s,end_s,label,score", "0.5,1,a,high"],
    "odd verdict": ["start_s,end_s,label,verdict", "0.5,1,a,guilty"],
    "odd channel": ["start_s,end_s,label,channel", "0.5,1,a,left"],
    "json cut at the end": ['{"start_s": 0.5, "end_s": 1, "label": "a"}', '{"start_s": 3, "en'],
}  # fmt: skip


@pytest.mark.parametrize("case", READ_RIGHTLY)
def test_a_right_reading(case, tmp_path):
    path = tmp_path / "odd.txt"
    path.write_text("\n".join(READ_RIGHTLY[case]), encoding="utf-8", newline="")
    annotations = read_annotations(path).annotations
    assert [(annotation.start_s, annotation.end_s, annotation.label) for annotation in annotations] == [(0.5, 1.0, "a")]


def test_odd_columns_are_kept_and_remarked(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("start_s,end_s,label,score\n0,1,a,high\n")
    table = read_annotations(path)
    assert (table.annotations[0].score, table.annotations[0].more) == (None, {"score": "high"})
    assert "column 'score' kept unchanged: 'high' is not a number (line 2)" in table.remarks


@pytest.mark.parametrize(
    "blob", [b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0", b"fLaC\0\0\0\x22\x10\0\x10\0", b"\0" * 99]
)
def test_a_recording_is_no_table(blob, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(blob * 100)
    with pytest.raises(AnnotationError, match=r"is not a text file: it begins with the bytes .*; give an annotation"):
        read_annotations(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "a.csv"
    with path.open("wb") as file:
        file.write(b"start_s,end_s,label\n")
        file.truncate(2**31)
    with pytest.raises(AnnotationError, match=r"a.csv has 2147483648 bytes, too many for an annotation file"):
        read_annotations(path)


def test_an_empty_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"")
    with pytest.raises(AnnotationError, match=r"a.txt is empty; if that means no labels, name its format"):
        read_annotations(path)
    assert read_annotations(path, format="audacity").annotations == ()
    for name in ("raven", "csv", "jsonl"):
        with pytest.raises(AnnotationError, match=r"a.txt is empty; expected"):
            read_annotations(path, format=name)


def test_nothing_there(tmp_path):
    with pytest.raises(AnnotationError, match=r"a.txt does not exist; check the name"):
        read_annotations(tmp_path / "a.txt")
    with pytest.raises(AnnotationError, match=r"is a folder; give the path of one annotation file"):
        read_annotations(tmp_path)
    with pytest.raises(AnnotationError, match=r"cannot be read \(.*embedded null"):
        read_annotations("a\0b.txt")


def test_broken_utf_16(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("0.5\t1.0\ta\n".encode("utf-16")[:-1])
    with pytest.raises(AnnotationError, match=r"begins like utf-16 text but is not .*; save it as UTF-8"):
        read_annotations(path)


def test_a_format_that_does_not_fit(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("0.5\t1.0\ta\n")
    with pytest.raises(AnnotationError, match=r"line 1: no column for the start; expected one of"):
        read_annotations(path, format="raven")
    with pytest.raises(AnnotationError, match=r"format='ravn' is not known; choose one of \['raven', 'audacity'"):
        read_annotations(path, format="ravn")
