"""The statistics of the comparisons against other implementations, and the one-class benchmark on made-up sets."""

import adbench
import numpy as np
import pytest
import rank_statistics as statistics
from scipy.stats import false_discovery_control, friedmanchisquare, wilcoxon
from sklearn.metrics import roc_auc_score

from outlark.maths import local


@pytest.fixture
def values(rng):
    """Twelve sets, four methods: the first is best, the second and third are alike."""
    base = rng.uniform(0.6, 0.9, size=(12, 1))
    return base + [[0.08, 0.0, 0.0, -0.1]] + 0.01 * rng.normal(size=(12, 4))


def test_mean_ranks_share_ties_and_put_failures_last():
    ranks = statistics.mean_ranks(np.array([[0.5, 0.5, np.nan], [0.9, 0.8, 0.1]]))
    np.testing.assert_allclose(ranks, [1.25, 1.75, 3.0])


def test_p_values_are_those_of_scipy_corrected_by_hand(values):
    assert statistics.friedman(values) == friedmanchisquare(*values.T).pvalue
    plain = [wilcoxon(values[:, 0], values[:, m]).pvalue for m in (1, 2, 3)]
    found = statistics.against(values, 0)
    assert np.isnan(found[0])
    order = np.argsort(plain)
    expected, running = np.empty(3), 0.0
    for place, m in enumerate(order):
        running = max(running, plain[m] * (3 - place))
        expected[m] = min(running, 1.0)
    np.testing.assert_allclose(found[1:], expected)
    assert (found[1:] >= false_discovery_control(plain)).all()  # Holm is stricter


def test_cliques_join_what_does_not_differ(values):
    assert statistics.cliques(values) == [(1, 2)]
    assert statistics.cliques(np.tile(values[:, :1], 3)) == [(0, 2)]


def test_the_figure_is_drawn(values, tmp_path):
    statistics.draw({"made up": values}, ["a", "b", "c", "d"], tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").stat().st_size > 5000


@pytest.fixture
def sets(rng, tmp_path, monkeypatch):
    (tmp_path / "adbench-half").mkdir()
    for name in ("WBC", "breastw", "glass", "wine", "resnet18-a", "resnet18-b"):
        X = np.concatenate([rng.normal(size=(80, 4)), rng.normal(size=(20, 4)) + 4.0])
        np.savez(tmp_path / "adbench-half" / f"{name}.npz", X=X, y=np.repeat([0, 1], [80, 20]))
    monkeypatch.setenv("OUTLARK_DATA", str(tmp_path))


def test_half_of_the_normal_rows_train_and_anomalies_never_do(sets):
    X, Z, normal = adbench.split("glass", 0)
    assert (len(X), len(Z), normal.sum()) == (40, 60, 40)
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)
    assert np.linalg.norm(Z[~normal].mean(axis=0)) > 5 * np.linalg.norm(Z[normal].mean(axis=0))


def test_every_method_ranks_anomalies_low(sets):
    X, Z, normal = adbench.split("wine", 1)
    for name, fit in adbench.METHODS.items():
        least = {"PCA reconstruction": 0.5, "Mahalanobis, length-1 rows": 0.0}  # here length alone tells them apart
        assert roc_auc_score(normal, fit(X, 0)(Z)) > least.get(name, 0.95), name


def test_tails_are_empirical_distribution_functions(rng):
    X, Z = rng.normal(size=(50, 1)), rng.normal(size=(10, 1))
    score = adbench.tails(lambda left, right, skewed: left)(X, 0)
    expected = [np.log((np.sum(z >= X) + 1) / 51) for z in Z]
    np.testing.assert_allclose(score(Z), expected)


def test_sets_of_one_source_are_on_one_side():
    names = ["WBC", "a", "b", "breastw", "c", "d"]
    first = adbench.halves(names)
    assert first[0] == first[3]
    assert 0 < first.sum() < len(names)


def test_what_is_judged_is_not_chosen_on():
    """The best setting of one half is used on the other."""
    of_settings = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]])
    column, best = adbench.chosen(of_settings, np.array([True, True, False, False]))
    assert column.tolist() == [0.1, 0.1, 0.2, 0.2]
    assert best == [1, 0]


def test_a_setting_is_used_and_put_back(sets):
    X, Z, _ = adbench.split("wine", 0)
    default = adbench.with_setting(adbench.SETTINGS[0])(X, 0)(Z)
    np.testing.assert_array_equal(default, adbench.mddkm(X, 0)(Z))
    assert not np.allclose(adbench.with_setting((5, 1.0, 8.0))(X, 0)(Z), default)
    assert adbench.SETTINGS[0] == (local.NEIGHBOURS, local.RIDGE, local.SCALE)


def test_a_run_prints_ranks_and_draws_the_figure(sets, tmp_path, capsys):
    adbench.main(["--seeds", "1", "--figure", str(tmp_path / "ranks.png")])
    shown = capsys.readouterr().out
    assert "tables: 4 sets" in shown
    assert "MDD-KM, chosen on the other half" in shown
    assert (tmp_path / "ranks.png").exists()
    with pytest.raises(SystemExit, match="no sets \\['moon'\\]"):
        adbench.main(["--sets", "moon"])
