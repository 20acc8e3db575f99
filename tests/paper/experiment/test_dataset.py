"""Data sets from folders of clips, tables of annotations, and made up."""

import numpy as np
import pytest
import soundfile

from outlark.annotations import Annotation, write_annotations
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.errors import InputError
from outlark.paper.experiment.dataset import Dataset


def clip_folder(folder, counts, rate=SAMPLE_RATE):
    for number, note in enumerate(notes(1, counts=counts)):
        path = folder / note.label / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, note.samples, rate, subtype="FLOAT")
    return folder


def test_a_folder_of_clips(tmp_path):
    data = Dataset.read([clip_folder(tmp_path, {"tuti-F": 3, "cach-E": 2})], known=["tuti-F"])
    assert data.counts == {"tuti-F": 3, "cach-E": 2}
    assert (data.known, data.name, data.grouped) == (("tuti-F",), tmp_path.name, False)
    made = notes(1, counts={"cach-E": 2})
    np.testing.assert_allclose(data.notes[0].samples, made[0].samples, atol=1e-7)


def test_clips_of_several_rates_come_at_the_lowest(tmp_path):
    clip_folder(tmp_path, {"tuti-F": 1})
    (tmp_path / "other").mkdir()
    soundfile.write(tmp_path / "other" / "a.wav", np.sin(np.arange(8000)), 16000)
    data = Dataset.read([tmp_path])
    assert data.sample_rate == 16000
    assert [len(n.samples) / data.sample_rate for n in data.notes] == pytest.approx([0.5, 0.165], rel=0.04)


@pytest.mark.parametrize("head", ["file,label,role,source_group", "recording,label,role,group"])
def test_groups_choose_the_clips_and_tell_what_is_known(tmp_path, head):
    clips = clip_folder(tmp_path / "clips", {"tuti-F": 3, "cach-E": 2})
    table = tmp_path / "groups.csv"
    table.write_text(
        f"{head}\nclips/cach-E/3.wav,cach-E,known,x\nclips/tuti-F/0.wav,tuti-F,unknown,y\n2.wav,tuti-F,unknown,z\n"
    )
    data = Dataset.read([clips], groups=table)
    assert [(n.label, n.group) for n in data.notes] == [("cach-E", "x"), ("tuti-F", "y"), ("tuti-F", "z")]
    assert data.known == ("cach-E",)
    assert data.grouped
    assert data.remarks == (f"2 of 5 clips skipped: {table} does not list them",)


def test_marks_in_recordings_are_cut_out(tmp_path):
    made = notes(2, counts={"tuti-D": 2, "cach-Z": 1})
    audio, truth = concatenate(made, gap_s=0.2, edge_s=0.1, rng=np.random.default_rng(0))
    for name in ("a", "b"):
        soundfile.write(tmp_path / f"{name}.wav", audio, SAMPLE_RATE, subtype="FLOAT")
        annotations = [
            Annotation(start_s=s.start_s, end_s=s.end_s, label=s.label, recording=f"{name}.wav") for s in truth
        ]
        write_annotations(tmp_path / f"{name}.Table.1.selections.txt", annotations, format="raven")
    data = Dataset.read([tmp_path])
    assert data.counts == {"tuti-D": 4, "cach-Z": 2}
    assert {n.group for n in data.notes} == {"a", "b"}  # every recording is a group
    for note, span in zip(data.notes[:3], truth, strict=True):
        assert note.label == span.label
        np.testing.assert_allclose(note.samples, audio[span.start : span.end], atol=1e-6)
    (tmp_path / "birds.csv").write_text("recording,group\na.wav,one\nb.wav,one\n")
    birds = Dataset.read(sorted(tmp_path.glob("*.txt")), groups=tmp_path / "birds.csv")
    assert {n.group for n in birds.notes} == {"one"}


def test_what_cannot_be_used_is_told(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(1000), 1000)
    outside = Annotation(start_s=2.0, end_s=3.0, label="x", recording="a.wav")
    write_annotations(tmp_path / "a.csv", [outside], format="csv")
    with pytest.raises(InputError, match=r"'x' from 2.000 to 3.000 s is not within a.wav, which lasts 1.000 s"):
        Dataset.read([tmp_path / "a.csv"])
    (tmp_path / "none" / "x").mkdir(parents=True)
    soundfile.write(tmp_path / "none" / "x" / "empty.wav", np.zeros(0), SAMPLE_RATE)
    with pytest.raises(InputError, match=r"empty.wav contains no samples"):
        Dataset.read([tmp_path / "none"])
    folder = clip_folder(tmp_path / "clips", {"tuti-F": 1})
    with pytest.raises(InputError, match=r"has no class 'song'; it has tuti-F"):
        Dataset.read([folder], known=["song"])
    with pytest.raises(InputError, match="named twice: tuti-F, tuti-F"):
        Dataset.read([folder], known=["tuti-F", "tuti-F"])
    table = tmp_path / "groups.csv"
    with pytest.raises(InputError, match=r"cannot read the groups \(.*No such file"):
        Dataset.read([folder], groups=table)
    table.write_text("clip,bird\na,b\n")
    with pytest.raises(InputError, match=r"columns 'file' \(or 'recording'\) and 'group'.*found 'clip', 'bird'"):
        Dataset.read([folder], groups=table)
    table.write_text("file,group\nnowhere.wav,b\n")
    with pytest.raises(InputError, match=r"lists none of the 1 files, such as .*0.wav; it names nowhere.wav"):
        Dataset.read([folder], groups=table)
