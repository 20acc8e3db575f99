"""Who trains and who tests: nothing is used twice, groups are kept apart, the same seed gives the same draw."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.data.synthetic import Note
from outlark.errors import InputError
from outlark.paper.experiment.dataset import Dataset, Protocol, draw

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
