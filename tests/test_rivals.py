"""The rivals of MDD-KM that benchmarks compare it with, against scikit-learn; learnt thresholds; template matching."""

import numpy as np
import pytest
from rival_detectors import METHODS, LearntNoteDetector, TemplateMatching, correlations, left_out_by_refit, raised
from rivals import (
    GP_SAMPLES,
    ClassMahalanobis,
    ClassSVM,
    GPReject,
    IndependentOCCGP,
    NearestNeighbour,
    PlattReject,
    gp_classifier,
    mahalanobis,
    note_parts,
    platt_svm,
)
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC, OneClassSVM

from outlark import OCCGP
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.note_training import annotated_notes
from outlark.errors import InputError
from outlark.estimators.open_set import low_end
from outlark.features.note import NoteFrontEnd

ALONE = (NearestNeighbour, ClassMahalanobis, ClassSVM, IndependentOCCGP)
ALL = (*ALONE, GPReject, PlattReject)
NOTE = {"metric": "euclidean", "sigma": 1.0, "sigma_reg": 0.1**0.5}


def made(kind, **parameters):
    return kind(**parameters, **(NOTE if kind is IndependentOCCGP else {}))


def whole_notes(rng, n_classes=3, n_notes=2, shifts=5, d=320, spread=0.5):
    """Samples of length 1 such as the front end gives: X, y, groups."""
    centres = np.repeat(rng.normal(size=(n_classes, d)), n_notes * shifts, axis=0)
    X = centres + spread * np.repeat(rng.normal(size=(n_classes * n_notes, d)), shifts, axis=0)
    X += 0.1 * rng.normal(size=X.shape)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.repeat([f"c{c}" for c in range(n_classes)], n_notes * shifts)
    return X, y, np.repeat(np.arange(n_classes * n_notes), shifts)


def frames(rng, n=60, d=4, n_notes=6):
    """Many samples in few dimensions: X, y, groups."""
    X = np.concatenate([rng.normal(3.0, 1.0, (n, d)), rng.normal(-3.0, 1.0, (n, d))])
    return X, np.repeat(["a", "b"], n), np.repeat(np.arange(2 * n_notes), n // n_notes)


def test_nearest_neighbour_is_that_of_scikit_learn(rng):
    X, y, _ = whole_notes(rng)
    Z = rng.normal(size=(20, 320)) / 18
    scores = NearestNeighbour().fit(X, y).class_scores(Z)
    for c, label in enumerate(np.unique(y)):
        d = NearestNeighbors(n_neighbors=1).fit(X[y == label]).kneighbors(Z)[0][:, 0]
        np.testing.assert_allclose(scores[:, c], 1 / (1 + d**2), rtol=1e-6)  # samples have length 1, so s is 1


def test_mahalanobis_is_that_of_an_inverse(rng):
    for X in (rng.normal(size=(40, 6)) @ rng.normal(size=(6, 6)), whole_notes(rng, 1)[0]):
        model = LedoitWolf().fit(X)
        Z = rng.normal(size=(10, X.shape[1]))
        offsets = Z - X.mean(axis=0)
        expected = np.sqrt(np.einsum("ij,jk,ik->i", offsets, np.linalg.inv(model.covariance_), offsets))
        np.testing.assert_allclose(mahalanobis(X)(Z), expected, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2])
def test_mahalanobis_of_one_or_two_samples_knows_far_from_near(rng, n):
    X = rng.normal(size=(n, 5))
    distance = mahalanobis(X)
    near, far = distance(X.mean(axis=0, keepdims=True)), distance(X[:1] + 100 * rng.normal(size=(1, 5)))
    assert near[0] == pytest.approx(0.0, abs=1e-9)
    assert far[0] > 10


def test_svm_is_that_of_scikit_learn(rng):
    X, y, _ = whole_notes(rng)
    Z = rng.normal(size=(20, 320)) / 18
    scores = ClassSVM().fit(X, y).class_scores(Z)
    for c, label in enumerate(np.unique(y)):
        machine = OneClassSVM(gamma="scale", nu=0.1).fit(X[y == label])
        np.testing.assert_allclose((scores[:, c] - 1) * machine.offset_, machine.decision_function(Z), atol=1e-9)


def test_occgps_are_separate_objects(rng):
    X, y, groups = frames(rng)
    model = IndependentOCCGP().fit(X, y, groups)
    Z = rng.normal(size=(20, 4))
    for c, label in enumerate(["a", "b"]):
        own = y == label
        alone = OCCGP().fit(X[own], groups=groups[own])
        np.testing.assert_allclose(model.class_scores(Z)[:, c], -0.5 * np.log(-alone.score_samples(Z)), atol=1e-12)
        left_out = -0.5 * np.log(-alone.left_out_scores_)
        assert model.thresholds_[c] == pytest.approx(low_end(left_out, 0.1))


def test_gp_classifier_takes_a_share_of_many_samples(rng):
    X, y, groups = frames(rng, n=600)
    model = gp_classifier(X, y, groups)
    assert len(model.base_estimator_.X_train_) == GP_SAMPLES


def test_platt_holds_out_notes_not_samples(rng):
    """Notes of two classes that are drawn alike: what is known of the others says nothing about a note."""
    X, _, groups = whole_notes(rng, n_classes=1, n_notes=40, d=20, spread=5.0)
    y = np.where(groups % 2, "a", "b")
    by_note, by_sample = (platt_svm(X, y, g)[0].predict_proba(X)[:, 1] for g in (groups, np.arange(len(X))))
    sure = [np.abs(p - 0.5).mean() for p in (by_note, by_sample)]
    assert sure[0] < 0.25 < 0.4 < sure[1]


def test_platt_decides_as_the_machine_against_the_rest(rng):
    X, y, groups = whole_notes(rng)
    Z = rng.normal(size=(50, 320)) / 18
    scores = PlattReject().fit(X, y, groups).class_scores(Z)
    for c, label in enumerate(np.unique(y)):
        decisions = SVC(C=10.0, gamma="scale").fit(X, y == label).decision_function(Z)
        assert (np.argsort(decisions) == np.argsort(scores[:, c])).all()


def test_notes_and_their_copies_are_one_part(rng):
    X, y, groups = whole_notes(rng, n_classes=1, n_notes=3)
    X[10:15] = X[:5]
    assert [part.tolist() for part in note_parts(X, y, groups)[0]] == [[*range(5), *range(10, 15)], [*range(5, 10)]]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(("n_notes", "shifts"), [(2, 5), (1, 5), (2, 1)])
def test_few_notes_are_described(rng, kind, n_notes, shifts):
    X, y, groups = whole_notes(rng, n_notes=n_notes, shifts=shifts)
    model = made(kind).fit(X, y, groups)
    far = np.concatenate([np.zeros((1, 320)), rng.normal(size=(5, 320))])
    scores = model.class_scores(np.concatenate([X, far]))
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    own = scores[: len(X)]
    assert (model.classes_[own.argmax(axis=1)] == y).all()
    assert scores[len(X) :].max() < own.max(axis=1).min()


@pytest.mark.parametrize("kind", ALL)
def test_order_does_not_matter(rng, kind):
    X, y, groups = whole_notes(rng)
    order = rng.permutation(len(X))
    Z = rng.normal(size=(10, 320)) / 18
    straight, shuffled = made(kind).fit(X, y, groups), made(kind).fit(X[order], y[order], groups[order])
    np.testing.assert_allclose(shuffled.class_scores(Z), straight.class_scores(Z), rtol=2e-3, atol=1e-4)


def test_silence_alone_is_no_reason_to_fail():
    X, y = np.zeros((6, 3)), np.repeat(["a", "b"], 3)
    for kind in (NearestNeighbour, ClassMahalanobis, ClassSVM):
        assert np.isfinite(kind().fit(X, y).class_scores(np.ones((2, 3)))).all()


KNOWN = {"tuti-F": 3, "cach-D": 3}


def planted(seed=1):
    """A recording with one note of each known class and an unknown one."""
    some = notes(seed=seed, counts={"tuti-F": 1, "cach-D": 1, "cach-Z": 1})
    return concatenate(some, gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(seed))


def trained(detector, counts=KNOWN):
    known = notes(counts=counts)
    return detector.fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


def finds_all(model, audio, truth):
    found = model.detect(audio, SAMPLE_RATE)
    assert (found[0].start, found[-1].end) == (0, len(audio))
    return all(
        any(s.label == note.label and abs(s.start_s - note.start_s) < 0.03 for s in found)
        for note in truth
        if note.label in KNOWN
    )


@pytest.mark.parametrize("name", [name for name in METHODS if "paper" not in name])
def test_planted_notes_are_found(name):
    assert finds_all(trained(METHODS[name].make()), *planted())


def test_rivals_learn_from_annotated_recordings_too():
    audio, annotations = concatenate(notes(counts=KNOWN), gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(0))
    for detector in (TemplateMatching(), TemplateMatching(0.6), LearntNoteDetector(NearestNeighbour())):
        assert finds_all(detector.fit_recordings([audio], [annotations], SAMPLE_RATE), *planted())


@pytest.mark.parametrize("name", ["gp-reject", "platt-reject"])
def test_a_single_class_is_refused_in_words(name):
    with pytest.raises(InputError, match="the only class is 'tuti-F'"):
        trained(METHODS[name].make(), {"tuti-F": 2})


def test_no_threshold_lies_below_the_mean_and_the_strict_ones_stay():
    assert raised(np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 2.0, 3.0]


def test_notes_are_scored_by_models_that_have_not_seen_them():
    """A nearest neighbour that has seen a note gives it 1; a class of a single note gets a guess, and says so."""
    audio, truth = concatenate(
        notes(counts={"tuti-F": 1, "cach-D": 12}), gap_s=0.2, edge_s=0.2, rng=np.random.default_rng(0)
    )
    learnt = LearntNoteDetector(NearestNeighbour(), NoteFrontEnd())
    with pytest.warns(UserWarning, match="'tuti-F' has a single training note, so its threshold is a guess"):
        model = learnt.fit_recordings([audio], [truth], SAMPLE_RATE).model_
    every = annotated_notes(model.front_end, [model.front_end.transform(audio)], [truth])
    with pytest.warns(UserWarning, match="'tuti-F' has a single"):
        own, single = left_out_by_refit(NearestNeighbour(), every, model)
    assert len(own) == 12
    assert own.max() < 0.99
    assert single == pytest.approx(0.9, abs=0.01)
    assert own.min() > model.spectral_thresholds[0] > 0.3


def test_correlations_are_those_of_numpy(rng):
    spectra, template = rng.random((40, 5)), rng.random((7, 5))
    expected = [np.corrcoef(spectra[t : t + 7].ravel(), template.ravel())[0, 1] for t in range(34)]
    np.testing.assert_allclose(correlations(spectra, template), expected, atol=1e-9)
    assert correlations(rng.random((6, 5)), template).shape == (0,)
    assert not correlations(np.ones((20, 5)), template).any()


def test_a_given_threshold_is_used():
    assert trained(TemplateMatching(0.6)).layout_.thresholds.tolist() == [0.6, 0.6]
    strict = trained(TemplateMatching(0.999))
    assert not [s for s in strict.detect(planted()[0], SAMPLE_RATE) if s.verdict == "known"]


def test_one_note_of_each_class_will_do():
    thresholds = trained(TemplateMatching(), {"tuti-F": 1, "cach-D": 1}).layout_.thresholds
    assert (thresholds > 0.3).all()
    assert (thresholds < 0.95).all()
