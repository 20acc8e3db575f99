"""Outcomes and results: against naive counts and scipy; the number of processes changes nothing."""

import csv
import json

import numpy as np
import pytest
from scipy.stats import ttest_rel, wilcoxon

from outlark.detection.detector import NoteDetector
from outlark.errors import InputError
from outlark.paper.detector import FrameDetector
from outlark.paper.experiment.dataset import Dataset, Protocol, draw
from outlark.paper.experiment.run import (
    METHODS,
    OOD,
    OVER_KNOWN,
    STEP_S,
    WINDOW_S,
    Method,
    method,
    outcome,
    run,
    window_times,
)
from outlark.segments import Segment

SMALL = Protocol(max_test=3)
NAMES = ("mddkm-paper", "pknn-paper", "mddkm")
CHOSEN = [method(name) for name in NAMES]


@pytest.fixture(scope="module")
def results():
    return run(Dataset.synthetic(), SMALL, methods=CHOSEN, seeds=(1, 2, 3))


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
    assert [(o.seed, o.method) for o in results.outcomes] == [(s, m) for s in (1, 2, 3) for m in NAMES]
    assert results.categories() == ["tuti-D", "tuti-F", "cach-Z", OOD]
    np.testing.assert_array_equal(results.overall("mddkm", "note"), results.values("mddkm", "note", OVER_KNOWN))
    assert results.overall("mddkm", "note").mean() > 0.85


def test_comparison_is_scipy_s(results):
    ours, other = (results.overall(name, "window") for name in ("mddkm", "pknn-paper"))
    found = results.compare("mddkm", "pknn-paper", "window")
    assert found.difference == pytest.approx((ours - other).mean())
    assert found.t_p == pytest.approx(ttest_rel(ours, other).pvalue)
    assert found.wilcoxon_p == pytest.approx(wilcoxon(ours - other, method="approx").pvalue)
    assert results.compare("mddkm", "mddkm", "note")[1:] == (1.0, 1.0)


def test_confusion_counts_every_note(results):
    one = results.confusion("mddkm", 2)
    truth = [s.label for s in draw(results.data, SMALL, 2).truth]
    assert dict(zip(one.row_labels, one.counts.sum(axis=1).tolist(), strict=True)) == {
        label: truth.count(label) for label in results.data.labels
    }


def test_files(results, tmp_path):
    results.write_csv(tmp_path / "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    mean = np.mean(
        [float(r["f"]) for r in rows if (r["method"], r["level"], r["category"]) == ("mddkm", "note", OVER_KNOWN)]
    )
    assert mean == pytest.approx(results.values("mddkm", "note", OVER_KNOWN).mean())
    assert len(rows) == 9 * (2 * 6 + 1)
    content = json.loads(json.dumps(results.as_json()))
    assert content["protocol"]["max_test"] == 3
    assert content["outcomes"][0]["settings"]["thresholds"].keys() == {"tuti-D", "tuti-F", "cach-Z"}
    assert sum(sum(row.values()) for row in content["outcomes"][0]["confusion"].values()) == len(
        draw(results.data, SMALL, 1).truth
    )


def test_seeds_that_are_kept_are_not_run_again(results, tmp_path):
    ran, kept = [], tmp_path / "kept"

    def made():
        ran.append(1)
        return NoteDetector()

    def experiment(data, protocol=SMALL, seeds=(1, 2, 3), name="mddkm"):
        return run(data, protocol, methods=[Method(name, "counted", made)], seeds=seeds, kept=kept)

    data = Dataset.synthetic()
    experiment(data, seeds=(1, 3))
    resumed = experiment(data)
    assert len(ran) == 3
    assert resumed.values("mddkm", "note", OOD).tolist() == results.values("mddkm", "note", OOD).tolist()
    assert [one.settings for one in resumed.outcomes] == [o.settings for o in results.outcomes if o.method == "mddkm"]
    # other notes, another protocol and other methods are other experiments
    experiment(Dataset.synthetic(seed=5), seeds=(1,))
    experiment(data, Protocol(max_test=2), seeds=(1,))
    experiment(data, seeds=(1,), name="other")
    assert len(ran) == 6


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_with_a_single_class(name):
    data = Dataset.synthetic().with_known(["tuti-D"])
    results = run(data, SMALL, methods=[method(name)], seeds=(1,))
    assert results.titles == {name: METHODS[name].title}
    assert 0.0 <= results.overall(name, "window")[0] <= 1.0


def test_left_out_thresholds_are_learnt():
    paper = FrameDetector.paper().set_params(class_model=None)
    for name in ("mddkm-paper-left-out", "pknn-paper-left-out"):
        detector = method(name).make()
        assert detector.class_model.threshold == "leave-note-out"
        assert repr(detector.set_params(class_model=None).get_params()) == repr(paper.get_params())
    for name in ("mddkm-paper", "pknn-paper"):
        assert method(name).make().class_model.threshold == "paper"


def test_a_method_that_does_not_exist():
    with pytest.raises(InputError, match=r"there is no method 'mdkm'; choose one of mddkm-paper, .*mddkm$"):
        method("mdkm")
