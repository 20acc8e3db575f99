"""Formats that need another package: crowsetta's, Parquet, AOEF."""

import json
import sys

import numpy as np
import pytest
import soundfile
from scipy.io import savemat

from outlark.annotations import FORMATS, Annotation, read_annotations, write_annotations
from outlark.errors import AnnotationError
from tests.annotations.made_marks import ANNOTATIONS, DURATIONS, table

GRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 2.3
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "notes"
        xmin = 0
        xmax = 2.3
        intervals: size = 3
        intervals [1]:
            xmin = 0
            xmax = 0.70123
            text = ""
        intervals [2]:
            xmin = 0.70123
            xmax = 1.1
            text = "chip"
        intervals [3]:
            xmin = 1.1
            xmax = 2.3
            text = ""
    item [2]:
        class = "TextTier"
        name = "clicks"
        xmin = 0
        xmax = 2.3
        points: size = 1
        points [1]:
            number = 1.5
            mark = "click"
"""


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("parquet", "pyarrow", "parquet"), ("aoef", "soundevent.io.aoef", "aoef"), ("textgrid", "crowsetta", "formats")],
)
def test_without_the_package_the_error_has_the_command(name, module, extra, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    assert FORMATS[name].extra == extra
    path = tmp_path / "a.txt"
    path.write_text("{}")
    with pytest.raises(AnnotationError, match=rf'needs the package .* pip install "outlark\[{extra}\]"'):
        read_annotations(path, format=name)
    if FORMATS[name].writes:
        with pytest.raises(AnnotationError, match=rf'pip install "outlark\[{extra}\]"'):
            write_annotations(path, ANNOTATIONS, format=name, durations=DURATIONS)


def test_textgrid(tmp_path):
    pytest.importorskip("crowsetta")
    path = table(tmp_path, GRID, name="a.TextGrid")
    found = read_annotations(path)
    assert found.format == "textgrid"
    assert [(m.start_s, m.end_s, m.label, m.more["tier"]) for m in found.annotations] == [
        (0.70123, 1.1, "chip", "notes"),
        (1.5, 1.5, "click", "clicks"),
    ]
    assert "all of the tiers ['notes', 'clicks']" in found.remarks[0]
    for tier in ("clicks", 2):
        assert [m.label for m in read_annotations(path, label_column=tier).annotations] == ["click"]
    with pytest.raises(AnnotationError, match=r"there is no tier 'words'; give one of \['notes', 'clicks'\]"):
        read_annotations(path, label_column="words")


def test_notmat(tmp_path):
    pytest.importorskip("crowsetta")
    path = tmp_path / "bird.cbin.not.mat"
    settings = {"Fs": 32000.0, "fname": "bird.cbin", "min_dur": 30, "min_int": 5, "sm_win": 2, "threshold": 1}
    times = {"onsets": np.array([[100.25], [300.0]]), "offsets": np.array([[150.0], [360.0]])}
    savemat(path, {**settings, **times, "labels": "ab"})
    found = read_annotations(path)
    assert [(m.start_s, m.end_s, m.label) for m in found.annotations] == [(0.10025, 0.15, "a"), (0.3, 0.36, "b")]
    assert found.annotations[0].recording == str(tmp_path / "bird.cbin")


def test_simple_seq(tmp_path):
    pytest.importorskip("crowsetta")
    path = table(tmp_path, "onset_s,offset_s,label", "0.12345,0.5,a", name="a.csv")
    through, own = read_annotations(path, format="simple-seq").annotations, read_annotations(path).annotations
    assert [(m.start_s, m.end_s, m.label) for m in through] == [(0.12345, 0.5, "a")]
    assert [(m.start_s, m.end_s, m.label) for m in own] == [(0.12345, 0.5, "a")]


def test_timit_counts_in_samples_of_its_recording(tmp_path):
    pytest.importorskip("crowsetta")
    path = table(tmp_path, "0 8000 h#", "8000 12001 sh", name="a.phn")
    with pytest.raises(
        AnnotationError, match=r"a.phn counts in samples, and .* of its recording .*a.wav cannot be found"
    ):
        read_annotations(path)
    soundfile.write(tmp_path / "a.wav", np.zeros(20000), 16000)
    annotations = read_annotations(path).annotations
    assert [(m.start_s, m.end_s, m.label) for m in annotations] == [(0.0, 0.5, "h#"), (0.5, 12001 / 16000, "sh")]


@pytest.mark.parametrize("name", ["a.TextGrid", "a.not.mat", "a.phn", "a.xml"])
def test_what_crowsetta_cannot_read(name, tmp_path):
    pytest.importorskip("crowsetta")
    path = table(tmp_path, "nothing of the kind", name=name)
    with pytest.raises(AnnotationError, match=rf"{name} cannot be read as .* check that it is such a file"):
        read_annotations(path)


def test_parquet_of_others(tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"file": ["a.wav"], "onset": [0.1], "offset": [0.25], "species": ["EATO"], "n": [3]})
    frame.to_parquet(tmp_path / "a.parquet")
    (annotation,) = read_annotations(tmp_path / "a.parquet").annotations
    assert annotation == Annotation(start_s=0.1, end_s=0.25, label="EATO", recording="a.wav", more={"n": "3"}, line=1)
    pandas.DataFrame({"onset": [0.1, 2.0], "offset": [0.25, 1.0]}).to_parquet(tmp_path / "b.parquet")
    assert (
        "b.parquet, row 2: the end, 1.0 s, is before the start" in read_annotations(tmp_path / "b.parquet").refused[0]
    )


def test_parquet_that_is_damaged(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    write_annotations(path, ANNOTATIONS, format="parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(AnnotationError, match=r"a.parquet: not a Parquet file, or damaged"):
        read_annotations(path)


def annotations(**tag):
    data = pytest.importorskip("soundevent.data")
    recording = data.Recording(path="a.wav", duration=10, channels=1, samplerate=48000)
    shapes = [
        data.BoundingBox(coordinates=[1.0, 200.0, 2.0, 900.0]),
        data.TimeStamp(coordinates=3.0),
        data.Polygon(coordinates=[[[4.0, 100.0], [5.0, 300.0], [4.5, 200.0]]]),
    ]
    events = [
        data.SoundEventAnnotation(
            sound_event=data.SoundEvent(recording=recording, geometry=shape),
            tags=[data.Tag(term=data.term_from_key(key), value=value) for key, value in tag.items()],
        )
        for shape in shapes
    ]
    clip = data.Clip(recording=recording, start_time=0, end_time=10)
    return data.AnnotationSet(clip_annotations=[data.ClipAnnotation(clip=clip, sound_events=events)])


def test_annotations_of_whombat(tmp_path):
    io = pytest.importorskip("soundevent.io")
    io.save(annotations(quality="good", species="Parus major"), tmp_path / "a.json")
    found = read_annotations(tmp_path / "a.json")
    assert found.format == "aoef"
    assert [(m.start_s, m.end_s, m.low_hz, m.high_hz) for m in found.annotations] == [
        (1.0, 2.0, 200.0, 900.0),
        (3.0, 3.0, None, None),
        (4.0, 5.0, 100.0, 300.0),
    ]
    assert {(m.label, m.recording, m.sample_rate) for m in found.annotations} == {("Parus major", "a.wav", 48000)}
    assert "labels from the tag" in found.remarks[0]
    assert read_annotations(tmp_path / "a.json", label_column="quality").annotations[0].label == "good"
    with pytest.raises(AnnotationError, match=r"a.json: no tag has the key 'call'; give one of"):
        read_annotations(tmp_path / "a.json", label_column="call")


def test_aoef_that_is_none(tmp_path):
    pytest.importorskip("soundevent")
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"created_on": "x", "data": {}}, indent=1))
    with pytest.raises(AnnotationError, match=r"a.json: not AOEF, or damaged"):
        read_annotations(path)


@pytest.mark.parametrize("lacking", ["recording", "sample_rate"])
def test_aoef_needs_recording_and_rate(lacking, tmp_path):
    pytest.importorskip("soundevent")
    given = {"recording": "a.wav", "sample_rate": 8000} | {lacking: None}
    with pytest.raises(AnnotationError, match=rf"an annotation at 1.0 s has no {lacking}, which AOEF needs"):
        write_annotations(tmp_path / "a.aoef.json", [Annotation(start_s=1, end_s=2, **given)], format="aoef")


def test_aoef_recordings_last_as_long_as_they_are_said_to(tmp_path):
    io = pytest.importorskip("soundevent.io")
    annotations = [Annotation(start_s=1, end_s=2, recording=name, sample_rate=8000) for name in ("a.wav", "b.wav")]
    write_annotations(tmp_path / "a.json", annotations, format="aoef", durations={"a.wav": 60.0})
    clips = io.load(tmp_path / "a.json").clip_predictions
    assert [clip.clip.recording.duration for clip in clips] == [60.0, 2.0]
