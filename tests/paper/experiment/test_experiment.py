"""Outcomes and results: against naive counts and scipy; the number of processes changes nothing."""

import csv
import json

import numpy as np
import pytest
from scipy.stats import ttest_rel, wilcoxon

from outlark.paper.experiment import run as module
from outlark.paper.experiment.dataset import Dataset, Protocol, draw
from outlark.paper.experiment.run import OOD, OVER_KNOWN, STEP_S, WINDOW_S, Checkpoint, outcome, run, window_times
from outlark.segments import Segment

SMALL = Protocol(max_test=3)
METHODS = ("mddkm-paper", "hlds:knn", "templates")


@pytest.fixture(scope="module")
def results():
    return run(Dataset.synthetic(), SMALL, methods=METHODS, seeds=(1, 2, 3))


def naive_f(true, found, label):
    right = sum(t == f == label for t, f in zip(true, found, strict=True))
    return 2 * right / (sum(t == label for t in true) + sum(f == label for f in found))


def test_an_outcome_is_what_one_counts():
    """Each note is found late and with some wrong names: F window by window and note by note, counted one by one."""
    drawn = draw(Dataset.synthetic(), SMALL, 4)
    rng = np.random.default_rng(0)
    found = []
    for note in drawn.truth:
        label = rng.choice([*drawn.known, OOD], p=[0.2, 0.2, 0.2, 0.4]) if rng.random() < 0.4 else note.label
        start = note.start + int(rng.uniform(0, 0.7) * (note.end - note.start))
        verdict = "known" if label in drawn.known else "unknown"
        found.append(Segment(start=start, end=note.end, sample_rate=22050, label=label, verdict=verdict))
    judged = outcome("x", 4, drawn, found)
    n_windows = (len(drawn.audio) - 96) // 48 + 1
    middles = [48 * k + 47.5 for k in range(n_windows)]

    def label_at(segments, at):
        names = [s.label for s in segments if s.start <= at < s.end and s.label in drawn.known]
        return names[0] if names else OOD

    true, answers = ([label_at(segments, at) for at in middles] for segments in (drawn.truth, found))
    by_window = {label: naive_f(true, answers, label) for label in [*drawn.known, OOD]}
    assert judged.categories("window") == pytest.approx(by_window)
    assert judged.overall("window") == pytest.approx(np.mean(list(by_window.values())))
    votes = []
    for note in drawn.truth:
        own = [answers[k] for k, at in enumerate(middles) if note.start <= at < note.end]
        votes.append(max([*drawn.known, OOD], key=own.count))
    names = [s.label if s.label in drawn.known else OOD for s in drawn.truth]
    by_note = {label: naive_f(names, votes, label) for label in drawn.known}
    assert judged.overall("note") == pytest.approx(np.mean(list(by_note.values())))


def test_windows_are_the_paper_s():
    assert (WINDOW_S, STEP_S) == (96 / 22050, 48 / 22050)
    assert len(window_times(1.0)) == (22050 - 96) // 48 + 1
    assert len(window_times(0.001)) == 0


def test_results_come_seed_by_seed(results):
    assert [(o.seed, o.method) for o in results.outcomes] == [(s, m) for s in (1, 2, 3) for m in METHODS]
    assert results.categories() == ["tuti-D", "tuti-F", "cach-Z", OOD]
    np.testing.assert_array_equal(results.overall("templates", "note"), results.values("templates", "note", OVER_KNOWN))
    assert results.overall("templates", "note").mean() > 0.85


def test_comparison_is_scipy_s(results):
    ours, other = (results.overall(name, "window") for name in ("templates", "hlds:knn"))
    found = results.compare("templates", "hlds:knn", "window")
    assert found.difference == pytest.approx((ours - other).mean())
    assert found.t_p == pytest.approx(ttest_rel(ours, other).pvalue)
    assert found.wilcoxon_p == pytest.approx(wilcoxon(ours - other, method="approx").pvalue)
    assert results.compare("templates", "templates", "note")[1:] == (1.0, 1.0)


def test_confusion_counts_every_note(results):
    one = results.confusion("templates", 2)
    truth = [s.label for s in draw(results.data, SMALL, 2).truth]
    assert dict(zip(one.row_labels, one.counts.sum(axis=1).tolist(), strict=True)) == {
        label: truth.count(label) for label in results.data.labels
    }


def test_files(results, tmp_path):
    results.write_csv(tmp_path / "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    mean = np.mean(
        [float(r["f"]) for r in rows if (r["method"], r["level"], r["category"]) == ("templates", "note", OVER_KNOWN)]
    )
    assert mean == pytest.approx(results.values("templates", "note", OVER_KNOWN).mean())
    assert len(rows) == 9 * (2 * 6 + 1)
    content = json.loads(json.dumps(results.as_json()))
    assert content["protocol"]["max_test"] == 3
    assert content["outcomes"][0]["settings"]["thresholds"].keys() == {"tuti-D", "tuti-F", "cach-Z"}
    assert sum(sum(row.values()) for row in content["outcomes"][0]["confusion"].values()) == len(
        draw(results.data, SMALL, 1).truth
    )


def test_seeds_that_are_kept_are_not_run_again(results, tmp_path, monkeypatch):
    run(Dataset.synthetic(), SMALL, methods=METHODS, seeds=(1, 3), checkpoint=Checkpoint(tmp_path))
    with open(tmp_path / "seeds_done.jsonl", "ab") as file:
        file.write(b'\n{"key": "cut sho')  # killed while it wrote
    ran, seed_of = [], module._seed
    monkeypatch.setattr(module, "_seed", lambda *args: ran.append(args[-1]) or seed_of(*args))
    resumed = run(Dataset.synthetic(), SMALL, methods=METHODS, seeds=(1, 2, 3), checkpoint=Checkpoint(tmp_path))
    assert ran == [2]
    assert json.dumps(results.as_json()) == json.dumps(resumed.as_json())
    results.write_csv(tmp_path / "fresh.csv")
    resumed.write_csv(tmp_path / "resumed.csv")
    assert (tmp_path / "fresh.csv").read_bytes() == (tmp_path / "resumed.csv").read_bytes()
    again = Checkpoint(tmp_path)
    assert len(again) == 3
    run(Dataset.synthetic(), SMALL, methods=METHODS, seeds=(1, 2, 3), checkpoint=again)
    assert ran == [2]
    # other notes, another protocol and other methods are other experiments
    run(Dataset.synthetic(seed=5), SMALL, methods=METHODS[2:], seeds=(1,), checkpoint=again)
    run(Dataset.synthetic(), Protocol(max_test=2), methods=METHODS[2:], seeds=(1,), checkpoint=again)
    run(Dataset.synthetic(), SMALL, methods=METHODS[2:], seeds=(1,), checkpoint=again)
    assert ran == [2, 1, 1, 1]
    again.remove()
    assert len(Checkpoint(tmp_path)) == 0
