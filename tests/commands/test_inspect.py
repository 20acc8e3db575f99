"""What is in a file: told by its content, and in numbers that are checked against how the file was made."""

import shutil

import numpy as np
import pytest
import soundfile

from outlark import MDDKM, model_file
from outlark.audio.sound_files import SoundFiles
from outlark.commands.inspect import content_of, sound_content
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.detection.scores_file import ScoreKeeper
from outlark.errors import AnnotationError, AudioError, InputError, ModelFileError
from outlark.features.array import ArrayFrontEnd
from outlark.paper.detector import FrameDetector
from outlark.paper.front_end import HLDSFrontEnd
from tests.recordings_on_disk import save_model, song

RATE = 8000


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model") / "m.outlark", ("tuti-D", "cach-Z"))


def test_a_model(model):
    detector, found = model_file.load(model), content_of(model)
    assert (found["kind"], found["sample_rate"], found["size_bytes"]) == ("model", SAMPLE_RATE, model.stat().st_size)
    assert [kind["label"] for kind in found["classes"]] == ["cach-Z", "tuti-D"]
    second = found["classes"][1]
    own = [note for note in detector.model_.training if note["label"] == "tuti-D"]
    assert [(note["end_s"], note["sha256"]) for note in second["examples"]] == [(n["end_s"], n["sha256"]) for n in own]
    assert second["longest_s"] == max(note["end_s"] for note in own)
    assert second["threshold"] == detector.layout_.thresholds[1]
    assert found["front_end"]["name"] == "NoteFrontEnd"
    assert found["front_end"]["settings"]["n_bands"] == 40
    assert found["class_model"]["name"] == "MDDKM"
    assert found["decisions"]["settings"]["activity_db"] == 6.0
    assert found["versions"].keys() == {"outlark", "numpy", "scipy", "scikit-learn"}


def test_a_model_by_whatever_name(model, tmp_path):
    shutil.copy(model, tmp_path / "song.wav")
    assert content_of(tmp_path / "song.wav")["kind"] == "model"


def test_a_damaged_model(model, tmp_path):
    blob = bytearray(model.read_bytes())
    blob[-1] ^= 1
    (tmp_path / "m.outlark").write_bytes(blob)
    with pytest.raises(ModelFileError, match=r"m.outlark: damaged: the digest does not match"):
        content_of(tmp_path / "m.outlark")


def test_scores(model, tmp_path):
    detector = model_file.load(model)
    scores = detector.scores(song(0), SAMPLE_RATE)
    keeper = ScoreKeeper(detector.layout_, SAMPLE_RATE, recording="a.wav", channel=2, model_sha256="ab")
    keeper.push(scores.block)
    keeper.save(tmp_path / "a.scores", n_samples=len(song(0)), n_model_samples=scores.n_samples)
    found = content_of(tmp_path / "a.scores")
    assert (found["kind"], found["recording"], found["channel"], found["model_sha256"]) == ("scores", "a.wav", 2, "ab")
    assert found["duration_s"] == len(song(0)) / SAMPLE_RATE
    assert found["classes"] == ["cach-Z", "tuti-D"]


@pytest.mark.parametrize(
    ("front_end", "words"),
    [
        (HLDSFrontEnd(), "frames of 4.35 ms every 2.18 ms: level, slope and curvature of each band, as in the paper"),
        (ArrayFrontEnd(), "a series of numbers, not sound"),
    ],
)
def test_front_ends_in_words(front_end, words):
    assert front_end.in_words().startswith(words)


def test_models_of_all_kinds(tmp_path):
    known = notes(counts={"tuti-D": 2, "cach-Z": 2})
    series = np.random.default_rng(0).normal(size=(4, 60, 2))
    detectors = {
        "paper": FrameDetector.paper().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE),
        "series": FrameDetector(ArrayFrontEnd(), MDDKM()).fit(list(series), [1, 1, 2, 2], 100),
    }
    for name, detector in detectors.items():
        model_file.save(detector, tmp_path / name)
        assert len(content_of(tmp_path / name)["classes"]) == 2
    assert [kind["label"] for kind in content_of(tmp_path / "series")["classes"]] == [1, 2]


def test_a_recording(tmp_path):
    left = np.concatenate([np.zeros(RATE), np.tile([0.5, -0.5], RATE // 2), np.tile([1.0, -1.0], RATE // 4)])
    right = np.where(np.arange(len(left)) < RATE, 0.0, 0.1)
    soundfile.write(tmp_path / "SITE_20231024_120000.wav", np.column_stack([left, right]), RATE, subtype="FLOAT")
    found = sound_content(tmp_path / "SITE_20231024_120000.wav")
    assert (found["format"], found["subtype"], found["channels"], found["sample_rate"]) == ("WAV", "FLOAT", 2, RATE)
    assert (found["duration_s"], found["announced_s"], found["samples"]) == (2.5, 2.5, 2.5 * RATE)
    assert found["peak_db"] == [0.0, -20.0]
    expected = 10 * np.log10([(0.25 * 1 + 1.0 * 0.5) / 2.5, 0.01 * 1.5 / 2.5])
    assert found["rms_db"] == pytest.approx(expected, abs=0.01)
    assert found["mean"] == pytest.approx([0.0, 0.06], abs=1e-6)
    assert found["clipped"] == pytest.approx(0.5 / 2.5 / 2)
    assert found["silent"] == pytest.approx(1 / 2.5)
    assert found["clock"] == {
        "began": "2023-10-24T12:00:00", "zone_told": False, "source": "file name", "differences": [], "expansion": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(("subtype", "largest"), [("PCM_16", 32767 / 32768), ("PCM_U8", 127 / 128), ("PCM_24", 1.0)])
def test_clipping_is_full_scale_of_what_it_is_stored_in(tmp_path, subtype, largest):
    soundfile.write(tmp_path / "a.wav", np.repeat([0.0, 0.98, largest, -1.0], 100), RATE, subtype=subtype)
    assert sound_content(tmp_path / "a.wav")["clipped"] == 0.5


def test_digital_silence_is_where_nothing_changes(tmp_path, rng):
    x = np.concatenate([rng.uniform(-0.5, 0.5, RATE), np.full(RATE, 0.25)])
    soundfile.write(tmp_path / "a.wav", x, RATE)
    assert sound_content(tmp_path / "a.wav")["silent"] == 0.5


def test_no_sound_at_all(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(0), RATE)
    found = content_of(tmp_path / "a.wav")
    assert (found["kind"], found["duration_s"], found["peak_db"], found["clock"]) == ("recording", 0.0, [None], None)


def test_what_is_not_finite_is_counted(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.array([0.5, np.nan, np.inf, 0.0]), RATE, subtype="FLOAT")
    found = sound_content(tmp_path / "a.wav")
    assert (found["not_finite"], found["peak_db"]) == (2, [-6.02])


@pytest.mark.parametrize("ending", ["flac", "mp3"])
def test_a_recording_that_was_cut_short(tmp_path, rng, ending):
    soundfile.write(tmp_path / f"a.{ending}", rng.uniform(-0.5, 0.5, 20 * RATE), RATE)
    blob = (tmp_path / f"a.{ending}").read_bytes()
    (tmp_path / f"b.{ending}").write_bytes(blob[: len(blob) // 2])
    found = sound_content(tmp_path / f"b.{ending}")
    assert found["announced_s"] == 20.0
    assert 8.0 < found["duration_s"] < 10.5
    assert found["partial"].startswith("cut short: its header announces 20.")


def test_a_table(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(10), RATE)
    table = tmp_path / "marks.csv"
    table.write_text("file,start,end,Species\na.wav,1,2,EATO\na.wav,3,3,EATO\nb.wav,0.5,4.5,\n")
    found = content_of(table)
    assert (found["kind"], found["format"], found["annotations"], found["blank"], found["points"]) == (
        "table",
        "csv",
        3,
        1,
        1,
    )
    assert (found["labels"], found["start_s"], found["end_s"]) == ({"EATO": 2}, 0.5, 4.5)
    assert found["recordings"] == [
        {"name": "a.wav", "annotations": 2, "path": str(tmp_path / "a.wav")},
        {"name": "b.wav", "annotations": 1, "path": None},
    ]
    assert found["remarks"] == ["labels from the column 'Species'"]
    (tmp_path / "more").mkdir()
    soundfile.write(tmp_path / "more/b.wav", np.zeros(10), RATE)
    paths = [one["path"] for one in content_of(table, SoundFiles([tmp_path / "more"]))["recordings"]]
    assert paths == [str(tmp_path / "a.wav"), str(tmp_path / "more/b.wav")]


def test_tables_in_utf_16_are_no_mp3(tmp_path):
    text = "Selection\tBegin Time (s)\tEnd Time (s)\tSpecies\n1\t1.0\t2.0\tEATO\n" * 1
    (tmp_path / "a.txt").write_bytes(text.encode("utf-16"))
    found = content_of(tmp_path / "a.txt")
    assert (found["kind"], found["format"], found["labels"]) == ("table", "raven", {"EATO": 1})


def test_a_recording_with_the_name_of_a_table(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(10), RATE)
    (tmp_path / "a.wav").rename(tmp_path / "a.txt")
    assert content_of(tmp_path / "a.txt")["kind"] == "recording"


def test_what_is_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("dear diary\n")
    with pytest.raises(AnnotationError, match=r"a.txt, line 1: 'dear diary' is not the start of a known format"):
        content_of(tmp_path / "a.txt")
    (tmp_path / "a.py").write_text("dear diary\n")
    with pytest.raises(InputError, match=r"a.py is not a model, a recording or .* file: it begins with 'dear dia';"):
        content_of(tmp_path / "a.py")
    (tmp_path / "a.outlark").write_bytes(b"\x00\xff" * 50)
    with pytest.raises(
        ModelFileError, match=r"a.outlark: not a model file, .* begins with the bytes 00 ff 00 ff 00 ff 00 ff"
    ):
        content_of(tmp_path / "a.outlark")
    (tmp_path / "b.wav").write_bytes(b"\x00\xff" * 50)
    with pytest.raises(AudioError, match=r"b.wav cannot be decoded as a sound file"):
        content_of(tmp_path / "b.wav")
    (tmp_path / "a.wav").write_bytes(b"")
    with pytest.raises(InputError, match=r"a.wav is empty"):
        content_of(tmp_path / "a.wav")
    with pytest.raises(InputError, match="is a folder; give files"):
        content_of(tmp_path)
    with pytest.raises(InputError, match="gone cannot be read \\(No such file or directory\\)"):
        content_of(tmp_path / "gone")
    with pytest.raises(AudioError, match="is a text file, not a sound file"):
        sound_content(tmp_path / "a.txt")


def test_a_wav_that_was_cut_short(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(round(7.5 * RATE)), RATE, subtype="PCM_16")
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes()[: 44 + 2 * round(3.4 * RATE)])
    found = sound_content(tmp_path / "a.wav")
    assert found["duration_s"] == 3.4
    assert "its header announces 7.500 s, but it holds 3.400 s" in found["partial"]
