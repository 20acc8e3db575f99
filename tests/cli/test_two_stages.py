"""A model with a second stage, on the command line."""

import pytest
import soundfile
from click.testing import CliRunner

from outlark import NoteDetector, embeddings
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.model_file import load, save
from tests.recordings_on_disk import outlark

with_birdnet = pytest.mark.skipif(not embeddings.is_there(), reason=f"BirdNET is not installed: {embeddings.INSTALL}")


@pytest.fixture
def two_stages(tmp_path):
    """A model that says it was trained with BirdNET; what it was trained with here matters to no test."""

    def two_numbers(samples, sample_rate):
        return [1.0, float(len(samples) > 1000)]

    known = notes(counts={"tuti-F": 3, "cach-D": 3})
    detector = NoteDetector(embedding=two_numbers).fit(
        [n.samples for n in known], [n.label for n in known], SAMPLE_RATE
    )
    object.__setattr__(detector.second_stage_, "embedding", embeddings.BirdNET(output="species", keep=False))
    save(detector, tmp_path / "m.outlark")
    return tmp_path / "m.outlark"


@with_birdnet
def test_train_inspect_and_detect(tmp_path):
    clips, songs = tmp_path / "clips", tmp_path / "songs"
    for number, note in enumerate(notes(counts={"tuti-F": 2, "cach-D": 2})):
        (clips / note.label).mkdir(parents=True, exist_ok=True)
        soundfile.write(clips / note.label / f"{number}.wav", note.samples, SAMPLE_RATE)
    songs.mkdir()
    for number, note in enumerate(notes(seed=1, counts={"tuti-F": 1})):
        soundfile.write(songs / f"{number}.wav", note.samples, SAMPLE_RATE)
    model, found = tmp_path / "m.outlark", tmp_path / "found"
    done = outlark("train", clips, "-o", model, "--embedding", "birdnet")
    assert done.returncode == 0, done.stderr
    assert "non-commercial" in done.stderr
    assert load(model).second_stage_.threshold == embeddings.SPECIES_ALIKE
    done = outlark("inspect", model)
    assert "embedding   BirdNET-2.4 (outlark.embeddings.BirdNET), from a score of" in done.stdout
    done = outlark("detect", model, songs, "-o", found, "--verdict", "known")
    assert done.returncode == 0, done.stderr
    assert "tuti-F" in (found / "0.wav.outlark.csv").read_text()


def test_scores_cannot_be_kept_which_is_told_before_anything_is_heard(two_stages, tmp_path):
    soundfile.write(tmp_path / "a.wav", notes()[0].samples, SAMPLE_RATE)
    given = ["detect", str(two_stages), str(tmp_path / "a.wav"), "-o", str(tmp_path / "found"), "--keep-scores"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code not in (0, 3)
    assert "omit --keep-scores" in done.stderr


@pytest.mark.skipif(embeddings.is_there(), reason="BirdNET is installed")
def test_without_birdnet_a_run_ends_at_once_with_the_command_that_installs_it(two_stages, tmp_path):
    soundfile.write(tmp_path / "a.wav", notes()[0].samples, SAMPLE_RATE)
    given = ["detect", str(two_stages), str(tmp_path / "a.wav"), "-o", str(tmp_path / "found"), "--jobs", "1"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code not in (0, 3)
    assert embeddings.INSTALL in done.stderr


def test_the_paper_has_no_embedding(tmp_path):
    done = CliRunner().invoke(main, ["train", str(tmp_path), "-o", "m", "--paper", "--embedding", "birdnet"])
    assert done.exit_code == 1
    assert "give one of them" in done.stderr
