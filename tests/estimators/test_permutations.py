"""Names and order of classes, and the order of rows, do not matter, for any estimator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark import MDDKM, OCCGP, PKNN
from tests.toy_notes import notes

MODELS = {
    "MDDKM": MDDKM,
    "local": lambda: MDDKM(metric="local"),
    "trim": lambda: MDDKM(trim=True),
    "subsample": lambda: MDDKM(balance="subsample"),
    "paper": MDDKM.paper,
    "PKNN": PKNN,
}


def material(seed):
    """Three overlapping classes of different size, notes of two samples; integers in one draw out of two, with ties."""
    rng = np.random.default_rng(seed)
    X, y, groups = notes(rng, [14, 9, 11], n=2, spread=1.2)
    return rng, (np.round(3 * X) if seed % 2 else X), y, groups


def scored(model, names, Z):
    """Scores and thresholds with the columns in the order of `names`."""
    columns = [model.classes_.tolist().index(name) for name in names]
    return np.concatenate([model.class_scores(Z)[:, columns], model.thresholds_[np.newaxis, columns]])


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), names=st.permutations(["c", "a", "b"]))
def test_names_of_classes(make, seed, names):
    rng, X, y, groups = material(seed)
    Z = rng.normal(scale=3.0, size=(30, 4))
    one = make().fit(X, np.array(["a", "b", "c"])[y], groups)
    other = make().fit(X, np.array(names)[y], groups)
    np.testing.assert_allclose(scored(other, names, Z), scored(one, ["a", "b", "c"], Z), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [m for n, m in MODELS.items() if n not in ("PKNN", "subsample")])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), names=st.permutations([5, 7, 6]))
def test_order_of_rows_and_classes(make, seed, names):
    """PKNN and random subsets of notes are drawn by row; their documentation says so."""
    rng, X, y, groups = material(seed)
    Z = rng.normal(scale=3.0, size=(30, 4))
    order = rng.permutation(len(X))
    one, other = make().fit(X, y, groups), make().fit(X[order], np.array(names)[y[order]], groups[order])
    np.testing.assert_allclose(scored(other, names, Z), scored(one, [0, 1, 2], Z), rtol=1e-4, atol=1e-6)
    assert getattr(one, "metric_", None) == getattr(other, "metric_", None)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_of_the_rows_of_one_class(seed):
    rng, X, _, groups = material(seed)
    Z, order = rng.normal(scale=3.0, size=(30, 4)), rng.permutation(len(X))
    for model in (OCCGP(), OCCGP(metric="local"), OCCGP(measure="probability")):
        one = model.fit(X, groups=groups).score_samples(Z), model.offset_
        other = model.fit(X[order], groups=groups[order]).score_samples(Z), model.offset_
        np.testing.assert_allclose(other[0], one[0], rtol=1e-5, atol=1e-8)
        assert other[1] == pytest.approx(one[1], rel=1e-5)


def test_pknn_depends_on_the_order_of_rows_as_on_its_seed(rng):
    """So its documentation says; the share of predictions that changes is small."""
    _, X, y, _ = material(0)
    Z = rng.normal(scale=2.0, size=(400, 4))
    order = rng.permutation(len(X))
    changed = [
        np.mean(PKNN().fit(X, y).predict(Z) != other.predict(Z))
        for other in (PKNN().fit(X[order], y[order]), PKNN(random_state=1).fit(X, y))
    ]
    assert max(changed) < 0.15
