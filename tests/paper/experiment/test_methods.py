"""The methods by name: each runs from end to end, and what cannot be is refused with a list of what can."""

import pickle

import numpy as np
import pytest

from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.detector import NoteDetector
from outlark.errors import InputError
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector
from outlark.paper.experiment.methods import METHODS, Method, method

CLASSES = ("tuti-D", "tuti-F", "cach-Z")
WHOLE_NOTES = ("mddkm", "pknn", "occgp", "knn", "svm", "mahalanobis", "gp-reject", "platt-reject", "templates")


def trained(name, n_notes=2, classes=CLASSES):
    known = notes(counts=dict.fromkeys(classes, n_notes))
    return method(name).make().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def clip():
    """Nine notes, known and unknown, of another seed."""
    some = notes(seed=1, counts={"tuti-D": 2, "tuti-F": 2, "cach-Z": 2, "cach-D": 2, "tuti-A": 1})
    rng = np.random.default_rng(0)
    return concatenate([some[i] for i in rng.permutation(len(some))], gap_s=0.1, edge_s=0.3, rng=rng)


def hits(segments, truth):
    """How many of the known notes are found, and how many segments of a class are something else."""
    named = [s for s in segments if s.verdict in ("known", "ambiguous")]
    wanted = [t for t in truth if t.label in CLASSES]
    found = sum(any(s.label == t.label and s.start_s < t.end_s and s.end_s > t.start_s for s in named) for t in wanted)
    wrong = sum(
        not any(s.label == t.label and s.start_s < t.end_s and s.end_s > t.start_s for t in truth) for s in named
    )
    return found, wrong


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_from_end_to_end(name, clip):
    audio, truth = clip
    segments = trained(name).detect(audio, SAMPLE_RATE)
    assert segments[0].start == 0
    assert segments[-1].end == len(audio)
    if name in WHOLE_NOTES:
        found, wrong = hits(segments, truth)
        assert found >= 4
        assert wrong <= 3


@pytest.mark.parametrize("name", METHODS)
def test_a_single_class_runs_or_is_refused_in_words(name, clip):
    if name in ("gp-reject", "platt-reject"):
        with pytest.raises(InputError, match="the only class is 'tuti-D'"):
            trained(name, classes=("tuti-D",))
    else:
        trained(name, classes=("tuti-D",)).detect(clip[0], SAMPLE_RATE)


def test_the_table_is_in_order_and_names_agree():
    assert list(METHODS)[:2] == ["mddkm-paper", "mddkm-paper-left-out"]
    assert list(METHODS)[-9:] == list(WHOLE_NOTES)
    for name, one in METHODS.items():
        assert one.name == name
        assert method(name) is one
    assert len({one.title for one in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize(
    "spec", ["hlds:knn:paper", "hlds:platt-reject:rules", "hlds-top:occgp:paper", "hlds:svm", "hlds:mahalanobis"]
)
def test_specifications_run(spec, clip):
    audio, _ = clip
    assert trained(spec).detect(audio, SAMPLE_RATE)[-1].end == len(audio)


def test_a_specification_is_a_method_of_that_name():
    found = method("hlds:knn:paper")
    assert isinstance(found, Method)
    assert found.name == "hlds:knn:paper"
    assert found.make().decisions.get_params() == Rules.paper().get_params()
    assert found.make() is not found.make()
    assert isinstance(pickle.loads(pickle.dumps(found)).make(), NoteDetector)


def same(one, other):
    return repr(one.get_params()) == repr(other.get_params())


def test_the_paper_has_two_names():
    assert same(method("hlds-top:mddkm-paper:paper").make(), FrameDetector.paper())
    assert same(method("hlds-top:pknn:paper").make(), METHODS["pknn-paper-left-out"].make())
    assert same(method("hlds-top:occgp:paper").make(), METHODS["occgp-paper"].make())
    assert same(METHODS["mddkm"].make(), NoteDetector())


def test_left_out_thresholds_are_learnt():
    for name in ("mddkm-paper-left-out", "pknn-paper-left-out", "occgp-paper"):
        detector = METHODS[name].make()
        assert detector.class_model.threshold == "leave-note-out"
        assert same(detector.set_params(class_model=None), FrameDetector.paper().set_params(class_model=None))
    for name in ("mddkm-paper", "pknn-paper"):
        assert METHODS[name].make().class_model.threshold == "paper"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mdkm", "no method 'mdkm'; choose one of mddkm-paper.*FRONT:CLASS_MODEL"),
        ("hdls:knn", "no front end 'hdls'; choose one of note, hlds, hlds-top"),
        ("hlds:nn", "no class model 'nn'; choose one of mddkm, .*platt-reject"),
        ("hlds:knn:rule", "no decision rule 'rule'; choose one of rules, paper, notes"),
        ("hlds:knn:paper:x", "no decision rule 'paper:x'"),
        ("note:knn:paper", "choose notes$"),
        ("hlds:knn:notes", "choose rules or paper$"),
        ("", "no method ''"),
    ],
)
def test_what_does_not_exist_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        method(text)
