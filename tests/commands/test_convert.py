"""Tables in other formats: what goes with them, what is lost, and what is never overwritten."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from outlark.annotations import FORMATS, About, Annotation, read_annotations, write_annotations
from outlark.audio.recording import read
from outlark.audio.sound_files import SoundFiles
from outlark.commands.clips import choose, cut
from outlark.commands.convert import EXAMPLE, example, losses
from outlark.commands.convert import convert as conversions
from outlark.errors import AnnotationError, InputError

ABOUT = About(version="0.0.1", model_sha256="ab" * 32, settings={"channel": "mix"})
WRITTEN = [name for name, format in FORMATS.items() if format.writes]


@pytest.fixture
def table(tmp_path):
    write_annotations(tmp_path / "night.outlark.csv", EXAMPLE, format="csv", about=ABOUT)
    return tmp_path / "night.outlark.csv"


@pytest.mark.parametrize("name", WRITTEN)
def test_to_every_format(table, tmp_path, name):
    if FORMATS[name].extra:
        pytest.importorskip({"parquet": "pyarrow", "aoef": "soundevent"}[name])
    target = tmp_path / f"new{FORMATS[name].suffix}"
    done = convert(table, target)
    write_annotations(tmp_path / "same", EXAMPLE, format=name, about=ABOUT)
    # AOEF has the time of writing in it
    assert name == "aoef" or target.read_bytes() == (tmp_path / "same").read_bytes()
    assert (done.source_format, done.target_format, done.annotations) == ("csv", name, 2)
    assert done.written == len(read_annotations(target).annotations)
    assert read_annotations(target).about == ABOUT.as_dict()


def convert(*given, **rest):
    (one,) = conversions(*given, **rest).done
    return one


def convert_all(*given, **rest):
    result = conversions(*given, **rest)
    assert not result.failed
    return list(result.done)


def convert_folder(*given, **rest):
    result = conversions(*given, **rest)
    return list(result.done), list(result.failed)


def test_what_is_lost(table, tmp_path):
    lost = {name: convert(table, tmp_path / f"new{FORMATS[name].suffix}").lost for name in ("jsonl", "csv", "raven")}
    assert lost["jsonl"] == lost["csv"] == ()
    assert lost["raven"] == ("lost: sample rate (2 annotations)",)
    assert convert(table, tmp_path / "new.labels.txt").lost == (
        "lost: recording (2 annotations)",
        "lost: runner-up (1 annotation)",
        "lost: runner-up's score (1 annotation)",
        "lost: reason (2 annotations)",
        "lost: sample rate (2 annotations)",
    )
    assert convert(table, tmp_path / "new.dcase.csv").lost[:2] == (
        "omitted: 1 annotation, unknown",
        "lost: label (1 annotation)",
    )


@pytest.mark.parametrize("name", ["birdnet", "kaleidoscope", "audacity", "dcase"])
def test_remark_date_and_time_are_lost_aloud(tmp_path, name):
    odd = replace(EXAMPLE[0], remark="cut short", start_time="2026-05-01T04:30:00.500000")
    write_annotations(tmp_path / "a.outlark.csv", [odd], format="csv")
    lost = convert(tmp_path / "a.outlark.csv", tmp_path / f"new{FORMATS[name].suffix}").lost
    assert "lost: remark (1 annotation)" in lost
    assert ("lost: date and time (1 annotation)" in lost) == (name != "kaleidoscope")


spans = st.tuples(st.integers(0, 10**6), st.integers(1, 10**4), st.sampled_from(["known", "silence"]))


@given(st.lists(spans, max_size=10, unique_by=lambda span: span[0]))
def test_marks_that_are_left_out_are_counted(made):
    annotations = [Annotation(start_s=s / 1e3, end_s=(s + n) / 1e3, label="a", verdict=v) for s, n, v in sorted(made)]
    kept = [annotation for annotation in annotations if annotation.verdict == "known"]
    n = len(annotations) - len(kept)
    assert losses(annotations, kept) == ([f"omitted: {n} annotation{'s' if n > 1 else ''}, silence"] if n else [])


def test_changed_and_rounded():
    was = Annotation(start_s=1, end_s=2, label="a\tb", score=1.23456789, channel=2, more={"x": "y"})
    now = Annotation(start_s=1, end_s=2, label="a b", score=1.2345679, channel=1)
    assert losses([was], [now]) == [
        "lost: other columns (1 annotation)",
        "changed: label (1 annotation)",
        "changed: channel (1 annotation)",
    ]
    now = Annotation(start_s=1, end_s=2, label="a b", score=1.23)
    assert "rounded: score (1 annotation)" in losses([was], [now])


def test_a_name_that_does_not_tell(table, tmp_path):
    with pytest.raises(
        InputError, match=r"the name 'x.txt' does not determine the format; give one \(--to\) of raven, audac"
    ):
        convert(table, tmp_path / "x.txt")
    assert convert(table, tmp_path / "x.txt", to="raven").target_format == "raven"


def test_the_source_is_never_overwritten(table, tmp_path):
    before = table.read_bytes()
    (tmp_path / "link.jsonl").symlink_to(table)
    for target in (table, tmp_path / "link.jsonl"):
        with pytest.raises(InputError, match="is the file to convert and is not overwritten"):
            convert(table, target, replace_target=True)
    assert table.read_bytes() == before


def test_other_tables_only_on_request(table, tmp_path):
    (tmp_path / "new.jsonl").write_text("mine")
    with pytest.raises(InputError, match=r"new.jsonl already exists; give another name, or replace it \(--force\)"):
        convert(table, tmp_path / "new.jsonl")
    assert (tmp_path / "new.jsonl").read_text() == "mine"
    assert convert(table, tmp_path / "new.jsonl", replace_target=True).written == 2


def test_recordings_give_names_and_rates(tmp_path):
    for folder in ("audio", "empty"):
        (tmp_path / folder).mkdir()
    for name, seconds in (("a", 2), ("b", 3)):
        soundfile.write(tmp_path / f"audio/{name}.flac", np.zeros(8000 * seconds), 8000)
    (tmp_path / "a.labels.txt").write_text("0.5\t1.0\tsong\n")
    convert(tmp_path / "a.labels.txt", tmp_path / "a.jsonl", audio=[tmp_path / "audio"])
    (annotation,) = read_annotations(tmp_path / "a.jsonl").annotations
    assert (annotation.recording, annotation.sample_rate) == ("a.flac", 8000)
    (tmp_path / "t.csv").write_text("recording,start_s,end_s,label\nb.flac,1,2,x\n")
    with pytest.raises(AnnotationError, match=r"t.csv, line 2: there is no recording 'b.flac' in"):
        convert(tmp_path / "t.csv", tmp_path / "u.csv", audio=[tmp_path / "empty"])


def test_a_raven_table_of_several_recordings_counts_over_all_of_them(tmp_path):
    """Raven opens them as one sequence; without their durations, times would jump back."""
    (tmp_path / "t.csv").write_text("recording,start_s,end_s,label\nb.flac,1,2,x\na.flac,1,2,x\n")
    with pytest.raises(AnnotationError, match=r"'b.flac'.*--audio"):
        convert(tmp_path / "t.csv", tmp_path / "t.selections.txt")
    assert not (tmp_path / "t.selections.txt").exists()
    for name, seconds in (("a", 2), ("b", 3)):
        soundfile.write(tmp_path / f"{name}.flac", np.zeros(8000 * seconds), 8000)
    done = convert(tmp_path / "t.csv", tmp_path / "t.selections.txt")
    assert any("2 recordings" in remark for remark in done.remarks)
    rows = [line.split("\t") for line in (tmp_path / "t.selections.txt").read_text().splitlines()]
    assert [row[3] for row in rows] == ["Begin Time (s)", "3.0", "1.0"]  # b after the 2 s of a
    again = read_annotations(tmp_path / "t.selections.txt").annotations
    assert [(m.recording, m.start_s) for m in again] == [(str(tmp_path / f"{name}.flac"), 1.0) for name in "ba"]


@pytest.mark.parametrize("name", ["raven", "kaleidoscope"])
def test_programs_that_open_recordings_get_their_paths(tmp_path, name):
    """Raven's Begin Path and Kaleidoscope's INDIR; a name that is not found stays as it is."""
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 8000)
    (tmp_path / "t.csv").write_text("recording,start_s,end_s,label\na.wav,0.2,0.3,x\n")
    done = convert(tmp_path / "t.csv", tmp_path / f"t{FORMATS[name].suffix}")
    assert read_annotations(done.target).annotations[0].recording == str(tmp_path / "a.wav")
    assert done.lost == ()
    (tmp_path / "u.csv").write_text("recording,start_s,end_s,label\nx/b.wav,0.2,0.3,x\n")
    done = convert(tmp_path / "u.csv", tmp_path / f"u{FORMATS[name].suffix}")
    assert read_annotations(done.target).annotations[0].recording == "x/b.wav"


def test_the_mean_of_all_channels_stays_what_it_is(tmp_path):
    """In Raven and Kaleidoscope, which need a channel, it does not become the first one."""
    both = [replace(EXAMPLE[0], channel=channel) for channel in (None, 2)]
    write_annotations(tmp_path / "a.outlark.csv", both, format="csv")
    for name in ("raven", "kaleidoscope"):
        convert(tmp_path / "a.outlark.csv", tmp_path / f"a{FORMATS[name].suffix}")
        again = read_annotations(tmp_path / f"a{FORMATS[name].suffix}").annotations
        assert [annotation.channel for annotation in again] == [None, 2]
    assert "lost: channel (1 annotation)" in convert(tmp_path / "a.outlark.csv", tmp_path / "a.birdnet.csv").lost


def test_aoef_finds_the_recording_beside_the_table(tmp_path):
    pytest.importorskip("soundevent")
    (tmp_path / "a.labels.txt").write_text("0.5\t1.0\tsong\n")
    with pytest.raises(AnnotationError, match=r"a.labels.txt: there is no recording 'a'"):
        convert(tmp_path / "a.labels.txt", tmp_path / "a.aoef.json")
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 8000)
    convert(tmp_path / "a.labels.txt", tmp_path / "a.aoef.json")
    assert read_annotations(tmp_path / "a.aoef.json").annotations[0].sample_rate == 8000


def test_folders(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    (source / "n").mkdir(parents=True)
    write_annotations(source / "n/a.wav.outlark.csv", EXAMPLE, format="csv", about=ABOUT)
    write_annotations(source / "b.labels.txt", EXAMPLE, format="audacity")
    (source / "broken.csv").write_text("start_s,end_s,label\n1,x,a\n")
    (source / "a.wav").touch()
    done, failed = convert_folder(source, target, to="raven")
    found = {path.relative_to(target).as_posix() for path in target.rglob("*.txt")}
    assert found == {"n/a.wav.Table.1.selections.txt", "b.Table.1.selections.txt"}
    assert [one.written for one in done] == [2, 2]
    assert [Path(file.where).name for file in failed] == ["broken.csv"]
    with pytest.raises(InputError, match="already exists"):
        convert_folder(source, target, to="raven")
    with pytest.raises(InputError, match="is the file to convert"):
        convert_folder(source, source, to="audacity", replace_target=True)


def test_the_file_of_all_rows_of_a_run_is_not_converted_beside_the_others(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for name in ("a.wav.outlark.csv", "combined.csv"):
        write_annotations(source / name, EXAMPLE, format="csv", about=ABOUT)
    done, failed = convert_folder(source, tmp_path / "out", to="raven")
    assert ([one.source.name for one in done], failed) == (["a.wav.outlark.csv"], [])


def test_of_two_formats_the_most_complete_is_converted(tmp_path):
    write_annotations(tmp_path / "a.labels.txt", EXAMPLE, format="audacity", about=ABOUT)
    write_annotations(tmp_path / "a.outlark.csv", EXAMPLE, format="csv", about=ABOUT)
    (one,), failed = convert_folder(tmp_path, tmp_path / "out", to="jsonl")
    assert (one.source_format, one.lost, failed) == ("csv", (), [])
    assert one.remarks == (f"{tmp_path / 'a.labels.txt'} skipped: the same annotations",)
    (one,), failed = convert_folder(tmp_path, tmp_path / "chosen", to="jsonl", format="audacity")
    assert (one.source_format, failed) == ("audacity", [])


def test_two_tables_of_one_name(tmp_path):
    write_annotations(tmp_path / "a.labels.txt", EXAMPLE[:1], format="audacity")
    write_annotations(tmp_path / "a.outlark.csv", EXAMPLE, format="csv")
    told = r"a.labels.txt \(audacity\) and .*a.outlark.csv \(csv\) would both become a.jsonl; choose .* \(--from\)"
    with pytest.raises(InputError, match=told):
        convert_folder(tmp_path, tmp_path / "out", to="jsonl")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_no_tables(tmp_path):
    (tmp_path / "x.txt").write_text("no table")
    with pytest.raises(InputError, match=r"contains no readable annotation files \(.*x.txt, line 1: "):
        convert_folder(tmp_path, tmp_path / "out", to="jsonl")


def test_examples_are_read_as_what_they_are(tmp_path):
    for name, format in FORMATS.items():
        text = example(format)
        if text is None:
            assert name == "parquet" or not format.writes
            continue
        path = tmp_path / f"x{format.suffix}"
        path.write_text(text, encoding="utf-8")
        assert read_annotations(path).format == name


def test_clips_from_a_raven_table_hold_what_was_analysed(tmp_path):
    """The first channel is silent: a clip of that one alone would teach silence."""
    sound = np.random.default_rng(0).normal(size=8000) / 10
    soundfile.write(tmp_path / "night.wav", np.column_stack([np.zeros(8000), sound]), 8000)
    found = [replace(EXAMPLE[0], start_s=0.2, end_s=0.4, sample_rate=8000)]
    write_annotations(tmp_path / "night.wav.outlark.csv", found, format="csv", about=ABOUT)
    target = convert(tmp_path / "night.wav.outlark.csv", tmp_path / "night.Table.1.selections.txt").target
    chosen = choose([read_annotations(target)], SoundFiles())
    (clip,), uncut = cut(chosen.choices, tmp_path / "clips")
    assert not uncut
    assert read(tmp_path / "clips" / clip.file)[0].std() > 0.01  # the mean of both, as training reads it


# ------------------------------------------------------ files about several recordings


@pytest.fixture
def of_two(tmp_path):
    each = [(at, f"{site}/1.wav") for at in (0, 1) for site in "AB"]
    marks = [Annotation(start_s=at, end_s=at + 0.5, label="song", recording=name) for at, name in each]
    write_annotations(tmp_path / "all.csv", marks, format="csv")
    return tmp_path / "all.csv"


def test_a_format_that_cannot_name_recordings_takes_one_only(of_two, tmp_path):
    with pytest.raises(InputError, match=r"2 recordings .*A/1.wav, B/1.wav.* folder"):
        convert(of_two, tmp_path / "all.labels.txt")
    assert not (tmp_path / "all.labels.txt").exists()


@pytest.mark.parametrize("name", ["audacity", "raven", "jsonl"])
@pytest.mark.parametrize("made", [False, True])
def test_into_a_folder_goes_one_file_for_each_recording(of_two, tmp_path, name, made):
    out = tmp_path / "out"
    if made:
        out.mkdir()
    done = convert_all(of_two, f"{out}/", to=name)
    suffix = FORMATS[name].suffix
    assert [one.target for one in done] == [out / f"A/1.wav{suffix}", out / f"B/1.wav{suffix}"]
    for one in done:
        assert [m.start_s for m in read_annotations(one.target).annotations] == [0, 1]


def test_recordings_known_by_their_paths_stay_within_the_folder(tmp_path):
    names = ["/disk/A/1.wav", "/disk/B/1.wav", "../2.wav"]
    marks = [Annotation(start_s=0, end_s=1, label="song", recording=name) for name in names]
    write_annotations(tmp_path / "all.csv", marks, format="csv")
    done = convert_all(tmp_path / "all.csv", f"{tmp_path / 'out'}/", to="audacity")
    assert [str(one.target.relative_to(tmp_path / "out")) for one in done] == [
        "2.wav.labels.txt", "disk/A/1.wav.labels.txt", "disk/B/1.wav.labels.txt",
    ]  # fmt: skip


def test_a_folder_with_a_file_about_several_recordings(of_two, tmp_path):
    (tmp_path / "in").mkdir()
    of_two.rename(tmp_path / "in/all.csv")
    done = convert_all(tmp_path / "in", tmp_path / "out", to="audacity")
    assert [one.target.relative_to(tmp_path / "out").as_posix() for one in done] == [
        "A/1.wav.labels.txt", "B/1.wav.labels.txt",
    ]  # fmt: skip
