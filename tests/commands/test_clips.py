"""Clips: the samples of the recording, in the folder of their class, under a name that tells where they are from."""

import csv
import re
import unicodedata

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.annotations import Annotation, Table
from outlark.audio.clips import storage, write_clip
from outlark.audio.recording import PartReader, Recording
from outlark.audio.sound_files import SoundFiles
from outlark.commands.clips import MAX_CLIP_NAME_BYTES, UniqueNames, choose, cut, safe_name, write_list
from outlark.commands.train.examples import find_examples
from outlark.errors import AudioError, InputError

RATE = 8000


def save(path, seconds=2.0, channels=1, **how):
    rng = np.random.default_rng(len(path.name))
    sound = rng.uniform(-0.9, 0.9, (round(seconds * RATE), channels))
    soundfile.write(path, sound, RATE, **how)
    return path


def table(folder, *annotations, name="marks.csv"):
    return Table(path=folder / name, format="csv", annotations=tuple(annotations))


def annotation(start_s, end_s, label="song", recording="a.wav", **more):
    return Annotation(start_s=start_s, end_s=end_s, label=label, recording=recording, **more)


def chosen(folder, *annotations, **how):
    return choose([table(folder, *annotations)], SoundFiles(), **how)


@pytest.mark.parametrize(
    ("name", "how", "kind", "subtype"),
    [
        ("a.wav", {"subtype": "PCM_16"}, None, "PCM_16"),
        ("a.wav", {"subtype": "PCM_24"}, None, "PCM_24"),
        ("a.wav", {"subtype": "PCM_32"}, None, "PCM_32"),
        ("a.wav", {"subtype": "PCM_U8"}, None, "PCM_U8"),
        ("a.wav", {"subtype": "FLOAT"}, None, "FLOAT"),
        ("a.wav", {"subtype": "DOUBLE"}, None, "DOUBLE"),
        ("a.wav", {"subtype": "ULAW"}, None, "PCM_16"),
        ("a.wav", {"subtype": "PCM_U8"}, "flac", "PCM_S8"),
        ("a.wav", {"subtype": "PCM_16"}, "flac", "PCM_16"),
        ("a.flac", {"subtype": "PCM_24"}, None, "PCM_24"),
        ("a.flac", {"subtype": "PCM_16"}, "wav", "PCM_16"),
        ("a.aiff", {"subtype": "PCM_24"}, None, "PCM_24"),
        ("a.mp3", {}, None, "FLOAT"),
        ("a.ogg", {}, None, "FLOAT"),
        ("a.opus", {"format": "OGG", "subtype": "OPUS"}, None, "FLOAT"),
    ],
)
def test_clips_hold_the_samples_of_the_recording(tmp_path, name, how, kind, subtype):
    recording = save(tmp_path / name, 20.0 if name in ("a.mp3", "a.ogg", "a.opus") else 2.0, channels=2, **how)
    with soundfile.SoundFile(recording) as file:
        # decoders of lossy formats round otherwise for other types
        whole = np.concatenate([file.read(2**16, "float32" if subtype == "FLOAT" else "float64") for _ in range(5)])
    spans = [(0, 100), (50, 9000), (60, 70), (10_000, 10_001), (len(whole) - 5, len(whole) + 100)]
    for i, (start, end) in enumerate(spans):
        audio = Recording(recording)
        stored = storage(kind, audio.format, audio.subtype)
        reader = PartReader(audio, stored.dtype)
        # alone, and after those before
        for number, span in enumerate([*spans[:i], (start, end)]):
            write_clip(tmp_path / f"{number}.clip", reader.part(*span), RATE, stored)
        assert stored.exact
        found, rate = soundfile.read(tmp_path / f"{i}.clip")
        assert rate == RATE
        assert np.array_equal(found, whole[start:end])
        info = soundfile.info(tmp_path / f"{i}.clip")
        assert (info.subtype, info.format) == (subtype, (kind or ("flac" if name == "a.flac" else "wav")).upper())


def test_what_flac_cannot_hold_is_rounded_and_said(tmp_path):
    recording = save(tmp_path / "a.wav", subtype="FLOAT")
    clips, _ = cut(chosen(tmp_path, annotation(0.5, 1.0)).choices, tmp_path / "out", format="flac")
    assert not clips[0].exact
    whole, _ = soundfile.read(recording)
    assert np.abs(soundfile.read(tmp_path / "out" / clips[0].file)[0] - whole[4000:8000]).max() < 2.0**-23
    assert not storage("flac", "WAV", "PCM_32").exact


@settings(max_examples=30, deadline=None)
@given(
    spans=st.lists(st.tuples(st.integers(0, 170_000), st.integers(1, 80_000)), min_size=1, max_size=5).map(sorted),
)
def test_parts_where_seeking_is_not_exact(tmp_path_factory, spans):
    recording = tmp_path_factory.getbasetemp() / "long.ogg"
    if not recording.exists():
        save(recording, 20.0)
    with soundfile.SoundFile(recording) as file:
        whole = np.concatenate([file.read(2**16, dtype="float32", always_2d=True) for _ in range(4)])
    reader = PartReader(Recording(recording), "float32")
    for start, length in spans:
        assert np.array_equal(reader.part(start, start + length), whole[start : start + length])


def test_names_tell_recording_second_and_clock(tmp_path):
    save(tmp_path / "SITE7_20231024_235950.wav", 30.0)
    save(tmp_path / "a.b.wav")
    clips, uncut = cut(
        chosen(
            tmp_path,
            annotation(12.3456, 13.0, recording="SITE7_20231024_235950.wav"),
            annotation(0.5, 1.0, recording="a.b.wav"),
        ).choices,
        tmp_path / "out",
    )
    assert not uncut
    assert [clip.file for clip in clips] == [
        "song/SITE7_20231024_235950_00012.346s_20231025T000002.345.wav",
        "song/a.b_00000.500s.wav",
    ]
    assert [clip.clock for clip in clips] == ["2023-10-25T00:00:02.345", ""]


@pytest.mark.parametrize("zone", ["", " (UTC)", " (UTC+2)", " (UTC-3:30)"])
def test_clips_know_when_they_began(tmp_path, zone):
    with soundfile.SoundFile(tmp_path / "a.wav", "w", RATE, 1) as file:
        file.comment = f"Recorded at 12:00:00 24/10/2023{zone} by AudioMoth"
        file.write(np.zeros(10 * RATE))
    for kind in ("wav", "flac"):
        clips, _ = cut(chosen(tmp_path, annotation(2.5, 3.0)).choices, tmp_path / kind, pad_s=0.25, format=kind)
        began = Recording(tmp_path / kind / clips[0].file).clock
        assert began.began == Recording(tmp_path / "a.wav").clock.at(2.25)
        assert began.source == "comment"
    with soundfile.SoundFile(tmp_path / "wav" / clips[0].file.replace(".flac", ".wav")) as file:
        assert file.comment.endswith("from a.wav at 2.250 s")


def test_no_two_clips_have_the_same_name(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        save(tmp_path / folder / "a.wav")
        save(tmp_path / folder / "A.flac")
    annotations = [
        annotation(0.5, end_s, label, recording)
        for recording in ("x/a.wav", "y/a.wav", "x/A.flac", "y/A.flac")
        for label in ("song", "Song", "so/ng", "so:ng")
        for end_s in (1.0, 1.0001)
    ]
    clips, uncut = cut(chosen(tmp_path, *annotations).choices, tmp_path / "out", format="wav")
    assert not uncut
    assert len({clip.file.casefold() for clip in clips}) == len(annotations) == 32
    assert len(list((tmp_path / "out").rglob("*.wav"))) == 32
    assert {clip.file.split("/")[0].casefold() for clip in clips} == {"song", "song_2", "so_ng", "so_ng_2"}
    of_label = {}
    for clip in clips:
        of_label.setdefault(clip.choice.annotation.label, set()).add(clip.file.split("/")[0])
    assert all(len(folders) == 1 for folders in of_label.values())


def test_a_class_called_unknown_does_not_mix_with_what_is_unknown(tmp_path):
    save(tmp_path / "a.wav")
    annotations = [
        annotation(0.1, 0.2, "unknown", verdict="known"),
        annotation(0.5, 0.6, None, verdict="unknown"),
        annotation(0.8, 0.9, None),
    ]
    clips, _ = cut(chosen(tmp_path, *annotations, verdicts=("known", "unknown")).choices, tmp_path / "out")
    assert [clip.file.split("/")[0] for clip in clips] == ["unknown", "unknown_2", "unknown_2"]


def test_padding_ends_with_the_recording(tmp_path):
    recording = save(tmp_path / "a.wav")
    whole, _ = soundfile.read(recording)
    clips, uncut = cut(
        chosen(tmp_path, annotation(0.1, 0.3), annotation(1.9, 2.0)).choices, tmp_path / "out", pad_s=0.2
    )
    assert not uncut
    assert [(clip.start_s, clip.end_s) for clip in clips] == [(0.0, 0.5), (1.7, 2.0)]
    assert np.array_equal(soundfile.read(tmp_path / "out" / clips[1].file)[0], whole[13_600:])


def test_one_channel_where_the_mark_tells_it(tmp_path):
    recording = save(tmp_path / "a.wav", channels=2)
    whole, _ = soundfile.read(recording)
    annotations = [annotation(0.1, 0.2), annotation(0.3, 0.4, channel=2), annotation(0.5, 0.6, channel=3)]
    clips, uncut = cut(chosen(tmp_path, *annotations).choices, tmp_path / "out")
    first, second = (soundfile.read(tmp_path / "out" / clip.file)[0] for clip in clips)
    assert np.array_equal(first, whole[800:1600])
    assert np.array_equal(second, whole[2400:3200, 1])
    assert [failure.message for failure in uncut] == ["it is in channel 3, but the recording has 2"]


def test_what_cannot_be_cut_is_told_and_the_rest_is_cut(tmp_path):
    save(tmp_path / "a.wav")
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    annotations = [
        annotation(0.1, 0.2, line=2),
        annotation(0.4, 0.4, line=3),
        annotation(2.5, 3.0, line=4),
        annotation(0.0, 700.0, line=5),
        annotation(0.1, 0.2, recording="bad.wav", line=6),
        annotation(0.1, 0.2, recording="gone.wav", line=7),
    ]
    found = chosen(tmp_path, *annotations)
    clips, uncut = cut(found.choices, tmp_path / "out")
    assert len(clips) == 1
    assert "line 7: there is no recording 'gone.wav'" in found.uncut[0].message
    assert found.remarks == ["1 annotation skipped: no recording"]
    told = [f"{failure.where}: {failure.message}" for failure in uncut]
    assert any("line 3: 'song' at 0.400 s" in text and "no duration; give pad_s" in text for text in told)
    assert any("line 4" in text and "the recording ends before it" in text for text in told)
    assert any("line 5" in text and "700 s long, but a clip has at most 600 s" in text for text in told)
    assert any("bad.wav is a text file, not a sound file" in text for text in told)
    assert len(told) == 4


def test_which_marks_are_chosen(tmp_path):
    save(tmp_path / "a.wav")
    annotations = [
        annotation(0.1, 0.2, "song", verdict="known"),
        annotation(0.2, 0.3, "call", verdict="known"),
        annotation(0.3, 0.4, "song", verdict="ambiguous"),
        annotation(0.4, 0.5, None, verdict="unknown"),
        annotation(0.5, 0.6, "song"),
        annotation(0.6, 0.7, None),
        annotation(0.1, 0.2, "song", verdict="known"),
    ]

    def starts(**how):
        return [choice.annotation.start_s for choice in chosen(tmp_path, *annotations, **how).choices]

    assert starts() == [0.1, 0.2, 0.5]
    assert starts(classes=["song"]) == [0.1, 0.5]
    assert starts(verdicts=("unknown",)) == [0.4, 0.6]
    assert starts(verdicts=("ambiguous", "known"), classes=["song"]) == [0.1, 0.3, 0.5]
    assert tuple(sorted(chosen(tmp_path, *annotations).remarks, reverse=True)) == (
        "3 annotations skipped: another verdict or class",
        "1 annotation skipped: repeated",
    )
    with pytest.raises(InputError, match="no annotation has the label 'alarm'; the labels are call, song"):
        starts(classes=["alarm"])


def test_at_most_so_many_spread_evenly(tmp_path):
    save(tmp_path / "a.wav")
    annotations = [annotation(i / 10, i / 10 + 0.05, label) for i in range(9, -1, -1) for label in ("a", "b")]
    found = chosen(tmp_path, *annotations, most=3)
    assert [choice.annotation.start_s for choice in found.choices if choice.kind == "a"] == [0.1, 0.5, 0.8]
    assert [choice.annotation.start_s for choice in found.choices if choice.kind == "b"] == [0.1, 0.5, 0.8]
    assert found.remarks == ["14 annotations skipped: more than asked for"]
    assert len(chosen(tmp_path, *annotations, most=30).choices) == 20


def test_the_list_and_the_folders_are_what_train_takes(tmp_path):
    save(tmp_path / "a.wav")
    annotations = [annotation(0.1, 0.2, "=song", score=1.5, line=2), annotation(0.3, 0.4, "call, short", line=3)]
    clips, _ = cut(chosen(tmp_path, *annotations).choices, tmp_path / "out", pad_s=0.05)
    write_list(tmp_path / "out/clips.csv", clips)
    with open(tmp_path / "out/clips.csv", newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert (first["label"], first["verdict"], first["score"], first["line"]) == ("'=song", "known", "1.5", "2")
    assert (first["from_s"], first["to_s"], first["clip_from_s"], first["clip_to_s"]) == ("0.1", "0.2", "0.05", "0.25")
    assert second["clip"] == "call, short/a_00000.300s.wav"
    assert second["recording"] == str(tmp_path / "a.wav")
    examples = find_examples([tmp_path / "out"])
    assert examples.clips
    assert examples.labels == ["=song", "call, short"]


def test_nothing_half_written_is_left(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(AudioError, match="cannot be written as flac with 20 channels"):
        write_clip(tmp_path / "out/a.flac", np.zeros((10, 20), "int32"), RATE, storage("flac", "WAV", "PCM_16"))
    assert not list((tmp_path / "out").iterdir())


# ------------------------------------------------------------------ names

RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@given(st.text())
def test_every_system_takes_the_name(tmp_path_factory, text):
    name = safe_name(text)
    assert 0 < len(name.encode()) <= MAX_CLIP_NAME_BYTES
    assert not set(name) & set('/\\:*?"<>|\0')
    assert not {name[0], name[-1]} & set(" .")
    assert not RESERVED.fullmatch(name)
    assert not any(unicodedata.category(letter) == "Cc" for letter in name)
    assert safe_name(name) == name
    folder = tmp_path_factory.getbasetemp() / "names"
    folder.mkdir(exist_ok=True)
    (folder / name).touch()
    assert (folder / name).exists()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((plain, plain) for plain in ("tuti-D", "Zilpzalp, Ruf", "鳴き声", "a.b", "é", "song (2)")),
        ("", "_"),
        ("..", "_"),
        (".hidden", "_.hidden"),
        ("a/b\\c", "a_b_c"),
        ("CON", "_CON"),
        ("com1.wav", "_com1.wav"),
        ("conure", "conure"),
        ("end. .", "end"),
        ("a\nb\x00\u202e", "a_b__"),
        ("\ud800", "_"),
        ("e\u0301", "é"),
        ("ü" * 100, "ü" * 60),
    ],
)
def test_odd_labels(text, name):
    assert safe_name(text) == name


@given(st.lists(st.sampled_from(["a", "A", "a_2", "b", "É", "é", "e\u0301"])))
def test_names_are_handed_out_once(wanted):
    names = UniqueNames()
    given_out = [names.new(name, ".wav") for name in wanted]
    keys = [unicodedata.normalize("NFC", name.casefold()) for name in given_out]
    assert len(set(keys)) == len(wanted)
    assert all(name.endswith(".wav") for name in given_out)
