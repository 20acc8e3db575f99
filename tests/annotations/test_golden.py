"""Golden files, byte for byte; and other programs read what outlark writes."""

from dataclasses import replace
from datetime import datetime, timedelta

import pandas
import pytest

from outlark.annotations import FORMATS, read_annotations, write_annotations
from tests.annotations.made_marks import ABOUT, ANNOTATIONS, DURATIONS
from tests.annotations.make_golden import FOLDER, NAMES

SOUNDS = [annotation for annotation in ANNOTATIONS if annotation.verdict != "silence"]
KNOWN = [annotation for annotation in ANNOTATIONS if annotation.verdict == "known"]
NEEDS = {"aoef": "soundevent", "parquet": "pyarrow"}


def written(name, folder, annotations=ANNOTATIONS):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    path = folder / f"night{FORMATS[name].suffix}"
    write_annotations(path, annotations, format=name, about=ABOUT, durations=DURATIONS)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_files_are_the_golden_ones_byte_for_byte(name, tmp_path):
    path = written(name, tmp_path)
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert made == {file.name: file.read_bytes() for file in FOLDER.glob(f"{path.name}*")}


@pytest.mark.parametrize("name", [*NAMES, "parquet"])
def test_read_back_without_a_word_on_the_format(name, tmp_path):
    table = read_annotations(written(name, tmp_path))
    assert table.format == name
    assert table.about == ABOUT.as_dict()
    assert table.remarks == (("labels from the column 'Common name'",) if name == "birdnet" else ())
    assert all(annotation.more == {} for annotation in table.annotations)
    complete = dict.fromkeys(("csv", "jsonl", "parquet", "aoef"), ANNOTATIONS)
    expected = {"dcase": KNOWN, **complete}.get(name, SOUNDS)
    for one, again in zip(expected, table.annotations, strict=True):
        assert again.span.is_close(one.span, 2e-9)
        assert again.label == (None if name == "dcase" else one.label)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of crowsetta's use of pandas
def test_crowsetta_reads_our_raven_table(tmp_path):
    crowsetta = pytest.importorskip("crowsetta")
    path = written("raven", tmp_path)
    boxes = crowsetta.formats.bbox.Raven.from_file(path, annot_col="Annotation").to_bbox()
    before = [60.0 * (annotation.recording != SOUNDS[0].recording) for annotation in SOUNDS]  # over all open files
    expected = [annotation.start_s + s for annotation, s in zip(SOUNDS, before, strict=True)]
    assert [box.onset for box in boxes] == pytest.approx(expected, abs=1e-9)
    assert [box.label for box in boxes][:3] == ["tuti-D", "tuti-D or tuti-F?", "unknown"]
    assert (boxes[0].low_freq, boxes[0].high_freq, boxes[3].high_freq) == (0.0, 11025.0, 8000.5)


def test_crowsetta_reads_our_audacity_labels(tmp_path):
    crowsetta = pytest.importorskip("crowsetta")
    annotations = [replace(annotation, low_hz=None) for annotation in SOUNDS]
    sequence = crowsetta.formats.seq.AudSeq.from_file(written("audacity", tmp_path, annotations)).to_seq(
        round_times=False
    )
    assert sequence.onsets_s == pytest.approx([annotation.start_s for annotation in SOUNDS], abs=1e-9)
    assert list(sequence.labels)[:2] == ["tuti-D 2.52", "tuti-D or tuti-F? 2.40"]


@pytest.mark.parametrize(
    ("name", "header", "rows"),
    [
        ("kaleidoscope", "INDIR,FOLDER,IN FILE,CHANNEL,OFFSET,DURATION,Fmin,Fmax,TOP1MATCH,TOP1DIST,MANUAL ID,"
         "ANALYSED", 6),
        ("birdnet", "Start (s),End (s),Scientific name,Common name,Confidence,File,Score", 6),
        ("dcase", "Audiofilename,Starttime,Endtime", 4),
        ("csv", "recording,start_s,end_s,label,verdict,score,runner_up,runner_up_score,reason,start_sample,end_sample,"
         "sample_rate,channel,low_hz,high_hz,schema,version,model_sha256,settings,start_time,remark", 7),
    ],
)  # fmt: skip
def test_pandas_reads_our_csv_without_options(name, header, rows, tmp_path):
    frame = pandas.read_csv(written(name, tmp_path))
    assert list(frame.columns) == header.split(",")
    assert len(frame) == rows
    assert frame.select_dtypes("number").shape[1] >= 2


def test_pandas_reads_our_json_lines_and_parquet(tmp_path):
    frame = pandas.read_json(written("jsonl", tmp_path), lines=True)
    # its JSON parser gives up some digits
    assert frame["start_s"][1:].tolist() == pytest.approx([annotation.start_s for annotation in ANNOTATIONS], abs=1e-12)
    frame = pandas.read_parquet(written("parquet", tmp_path))
    assert frame["start_s"].tolist() == [annotation.start_s for annotation in ANNOTATIONS]
    assert frame["end_sample"].dtype == "int64"


def test_soundevent_reads_our_aoef(tmp_path):
    io = pytest.importorskip("soundevent.io")
    clips = io.load(written("aoef", tmp_path)).clip_predictions
    assert [str(clip.clip.recording.path) for clip in clips] == list(dict.fromkeys(m.recording for m in ANNOTATIONS))
    second = clips[0].sound_events[1]
    assert [(tag.tag.term.name, tag.tag.value) for tag in second.tags] == [
        ("label", "tuti-D"), ("runner_up", "tuti-F"), ("verdict", "known"),
    ]  # fmt: skip
    assert second.tags[0].score > 0.5 > second.tags[1].score > 0.0  # only the former accepts it
    assert {f.term.name: f.value for f in second.sound_event.features} == {"score": 2.5234567, "runner_up_score": 1.75}


def test_tables_of_before_there_were_times_of_day_are_read_as_our_own(tmp_path):
    text = (FOLDER / "night.outlark.csv").read_text(encoding="utf-8")
    assert text.split("\n")[0].endswith(",settings,start_time,remark")
    earlier = text.replace(",start_time,remark", "").replace(",,\n", "\n")
    (tmp_path / "night.outlark.csv").write_text(earlier, encoding="utf-8")
    old, new = read_annotations(tmp_path / "night.outlark.csv"), read_annotations(FOLDER / "night.outlark.csv")
    assert (old.annotations, old.about, old.remarks) == (new.annotations, new.about, new.remarks)


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "raven", "kaleidoscope", "aoef"])
def test_times_of_day_and_remarks(name, tmp_path):
    began = datetime.fromisoformat("2026-05-01T23:59:59+02:00")
    about = replace(ABOUT, recording={"began": began.isoformat()})

    def at(one):
        return (began + timedelta(seconds=one.start_s)).isoformat(timespec="microseconds")

    night = [one for one in SOUNDS if one.recording == SOUNDS[0].recording]
    annotations = [replace(one, start_time=at(one), remark="partial: =cut") for one in night]
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    write_annotations(tmp_path / "t", annotations, format=name, about=about)
    table = read_annotations(tmp_path / "t", format=name)
    assert [one.start_time for one in table.annotations] == [one.start_time for one in annotations]
    assert annotations[-1].start_time.startswith("2026-05-02T00:00:00.")
    if name not in ("kaleidoscope", "aoef"):
        assert {annotation.remark for annotation in table.annotations} == {"partial: =cut"}
    assert all(annotation.more == {} for annotation in table.annotations)
    if name != "csv":  # whose rows say it in columns
        assert table.about["recording"] == {"began": "2026-05-01T23:59:59+02:00"}
