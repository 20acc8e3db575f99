"""Data sets from clips, annotations and made up; who trains and who tests: nothing twice, groups kept apart."""

from collections import Counter

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.annotations import Annotation, write_annotations
from outlark.data.synthetic import SAMPLE_RATE, Note, concatenate, notes
from outlark.errors import InputError
from outlark.paper.experiment.dataset import Dataset, Protocol, draw


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


DATA = Dataset.synthetic()


def counted(drawn):
    return Counter(n.label for n in drawn.train), Counter(s.label for s in drawn.truth)


def test_the_paper():
    drawn = draw(DATA, Protocol(), 1)
    train, test = counted(drawn)
    assert train == {"tuti-D": 2, "tuti-F": 2, "cach-Z": 2}
    assert test == DATA.counts - train  # the remaining 50, all of them, each once
    assert sum(len(n.samples) for n in drawn.train) + len(drawn.audio) == sum(len(n.samples) for n in DATA.notes)
    assert [s.start for s in drawn.truth[1:]] == [s.end for s in drawn.truth[:-1]]  # right after each other


def test_nothing_is_trained_and_tested_on():
    drawn = draw(DATA, Protocol(), 3)
    for note in drawn.train:
        spans = [drawn.audio[s.start : s.end] for s in drawn.truth]
        assert not any(len(s) == len(note.samples) and np.allclose(s, note.samples) for s in spans)


def test_seeds_decide_everything():
    one, again, other = (draw(DATA, Protocol(snr_db=10.0, gap_s=0.1), seed) for seed in (5, 5, 6))
    assert one.audio.tobytes() == again.audio.tobytes()
    assert one.truth == again.truth
    assert one.audio.tobytes() != other.audio.tobytes()
    orders = {tuple(s.label for s in draw(DATA, Protocol(), seed).truth) for seed in range(5)}
    assert len(orders) == 5


def test_silence_and_noise():
    plain, gaps = draw(DATA, Protocol(), 1), draw(DATA, Protocol(gap_s=0.1), 1)
    between = [gaps.audio[a.end : b.start] for a, b in zip(gaps.truth[:-1], gaps.truth[1:], strict=True)]
    assert {len(b) for b in between} == {2205}
    inside = np.concatenate([gaps.audio[s.start : s.end] for s in gaps.truth])
    assert 0 < np.std(np.concatenate(between)) < 0.05 * np.std(inside)
    noisy = draw(DATA, Protocol(snr_db=10.0), 1)
    for clean, note in zip(plain.train, noisy.train, strict=True):
        noise = note.samples - clean.samples
        assert 10 * np.log10(np.mean(clean.samples**2) / np.mean(noise**2)) == pytest.approx(10, abs=0.3)


def grouped(n_groups, n_classes, per_group, only=()):
    """Every group has notes of every class, but for groups that have one class only; no two notes of one length."""
    which = [
        (g, c)
        for g in range(n_groups)
        for c in ([only[g]] if g < len(only) else range(n_classes))
        for _ in range(per_group)
    ]
    made = [Note(f"c{c}", np.full(50 + i, 0.1), f"g{g}") for i, (g, c) in enumerate(which)]
    return Dataset(name="made", notes=tuple(made), sample_rate=1000)


@settings(max_examples=60, deadline=None)
@given(
    n_groups=st.integers(3, 9),
    per_group=st.integers(1, 3),
    n_train=st.integers(1, 2),
    only=st.lists(st.integers(0, 3), max_size=4),
    seed=st.integers(0, 99),
)
def test_groups_are_never_on_both_sides(n_groups, per_group, n_train, only, seed):
    data = grouped(n_groups + len(only), 4, per_group, only)
    drawn = draw(data, Protocol(n_train=n_train, n_known=2), seed)
    train, test = counted(drawn)
    assert train == dict.fromkeys(drawn.known, n_train)
    assert set(drawn.known) <= set(test)  # each known class is tested
    group_of_length = {len(n.samples): n.group for n in data.notes}
    tested = {group_of_length[s.end - s.start] for s in drawn.truth}
    assert tested.isdisjoint({n.group for n in drawn.train})


def test_known_classes_are_drawn_where_none_are_named():
    data = grouped(6, 6, 2)
    drawn = [draw(data, Protocol(n_known=2, n_unknown=2), seed) for seed in range(8)]
    assert len({d.known for d in drawn}) > 3
    assert all(len({s.label for s in d.truth}) == 4 for d in drawn)
    everyone = draw(data, Protocol(n_known=2), 0)
    assert {s.label for s in everyone.truth} == set(data.labels)


def test_at_most_so_many_test_notes():
    drawn = draw(DATA, Protocol(max_test=3), 1)
    assert max(counted(drawn)[1].values()) == 3


def test_too_few_notes():
    with pytest.raises(InputError, match=r"4 notes of 'cach-Z' to train on, expected 5"):
        draw(DATA, Protocol(n_train=5), 1)
    with pytest.raises(
        InputError, match=r"made has 0 classes with more than 2 notes, of two groups or more, .* expected 3 known ones"
    ):
        draw(grouped(1, 4, 3), Protocol(), 1)
    with pytest.raises(InputError, match=r"has 3 other classes, expected n_unknown=9"):
        draw(grouped(4, 6, 3), Protocol(n_unknown=9), 1)


def test_changes_against_the_paper():
    assert Protocol().changes() == {}
    assert Protocol(snr_db=3.0, n_train=4).changes() == {"snr_db": 3.0, "n_train": 4}
