"""Models in files: the same scores and segments to the last bit, and no file whatever does anything but fail."""

import copy
import hashlib
import json
import warnings
from dataclasses import is_dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
from sklearn.exceptions import NotFittedError

import outlark
from outlark import HLDS, MDDKM, OCCGP, PKNN, InputError, model_file
from outlark.audio.sound import resample
from outlark.commands.inspect import model_content
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.errors import ModelFileError
from outlark.features.array import ArrayFrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.files.container import read, write
from outlark.model_file import load, load_estimator, save, scoring_sha256
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector
from outlark.paper.front_end import HLDSFrontEnd
from outlark.segments import Segment
from tests import toy_notes

COUNTS = {"tuti-D": 3, "tuti-F": 3, "cach-Z": 3}
# What describes frames has fixed settings here: choosing them is tested elsewhere and takes long.
MDD = MDDKM(metric="euclidean", sigma_reg="condition", condition=1e6, max_samples=200)
SYSTEMS = {
    "notes": NoteDetector,
    "given": lambda: NoteDetector(NoteFrontEnd(n_bands=20, change=0.0, shifts_s=[0.0])),
    "paper": FrameDetector.paper,
    "hlds": lambda: FrameDetector(HLDSFrontEnd(lag_s=np.float64(0.01), output=(0, 2)), MDD, gap_s=0.2),
    "series": lambda: FrameDetector(ArrayFrontEnd(), MDD, Rules(activity_db=None)),
    "series pknn": lambda: FrameDetector(ArrayFrontEnd(window_s=0.01, measure_activity=False), PKNN(random_state=0)),
}
NUMBERS = {"tuti-D": 3, "tuti-F": 1, "cach-Z": 2}
STORED = Path(__file__).parent / "models"


def channels(name, samples):
    return np.column_stack([samples, np.roll(samples, 9)]) if name.startswith("series") else samples


def recording():
    """Known and unknown notes between stretches of faint noise."""
    played = notes(seed=1, counts={"tuti-D": 1, "tuti-F": 1, "cach-Z": 1, "cach-C": 1})
    return concatenate(played, gap_s=0.3, edge_s=0.3, rng=np.random.default_rng(1))[0]


@pytest.fixture(scope="module")
def fitted():
    made = {}

    def get(name):
        if name not in made:
            examples = notes(counts=COUNTS)
            labels = [NUMBERS[n.label] if "pknn" in name else n.label for n in examples]
            made[name] = SYSTEMS[name]().fit([channels(name, n.samples) for n in examples], labels, SAMPLE_RATE)
        return made[name]

    return get


def through_a_file(model, folder):
    save(model, folder / "m")
    return load(folder / "m") if isinstance(model, NoteDetector) else load_estimator(folder / "m")


def same(a, b, where=""):
    """Equal to the last bit, in value, type and memory order, however deep."""
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.flags.c_contiguous) == (b.dtype, b.shape, b.flags.c_contiguous), where
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), where
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            same(one, other, f"{where}[{i}]")
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            same(a[key], b[key], f"{where}.{key}")
    elif is_dataclass(a) or hasattr(a, "__dict__"):
        same(vars(a), vars(b), where)
    else:
        assert repr(a) == repr(b), where


# ---------------------------------------------------------------- detectors, there and back


@pytest.mark.parametrize("name", SYSTEMS)
def test_scores_and_segments_to_the_last_bit(fitted, name, tmp_path):
    detector, audio = fitted(name), channels(name, recording())
    again = through_a_file(detector, tmp_path)
    scores, found = detector.scores(audio, SAMPLE_RATE), again.scores(audio, SAMPLE_RATE)
    same(scores.block, found.block)
    segments = detector.detect(audio, SAMPLE_RATE)
    assert any(s.label is not None for s in segments) or name == "paper"
    assert again.detect(audio, SAMPLE_RATE) == segments
    same([s.label for s in segments], [s.label for s in again.detect(audio, SAMPLE_RATE)])


@pytest.mark.parametrize("name", SYSTEMS)
def test_all_that_fit_learns_is_kept(fitted, name, tmp_path):
    """A new attribute of a part must be kept, too."""
    detector = fitted(name)
    again = through_a_file(detector, tmp_path)
    same(detector.model_, again.model_)
    same(again.decisions.get_params(), detector.decisions_.get_params())
    assert scoring_sha256(again) == scoring_sha256(detector)
    if detector.model_.choice:
        assert again.front_end is None  # it chooses itself again
    else:
        same(again.front_end.get_params(), detector.front_end_.get_params())
        assert not [key for key in vars(again.front_end) if key.endswith("_")]
    if isinstance(detector, FrameDetector):
        same(again.class_model.get_params(), detector.class_model_.get_params())
        assert again.gap_s == detector.gap_s


def test_a_loaded_detector_learns_and_is_saved_again(fitted, tmp_path):
    save(fitted("notes"), tmp_path / "a")
    again = load(tmp_path / "a")
    save(again, tmp_path / "b")
    examples = notes(counts=COUNTS)
    save(again.fit([n.samples for n in examples], [n.label for n in examples], SAMPLE_RATE), tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_thresholds_set_by_hand_and_decisions_changed_later(fitted, tmp_path):
    detector = copy.copy(fitted("notes")).set_params(decisions=Decisions(activity_db=3.0))
    detector.model_ = replace(detector.model_, by_hand={"cach-Z": np.inf, "tuti-D": 0.1})
    again, audio = through_a_file(detector, tmp_path), recording()
    assert again.layout_.thresholds.tolist() == [np.inf, 0.1, detector.trained_thresholds[2]]
    assert again.detect(audio) == detector.detect(audio) != fitted("notes").detect(audio)
    assert scoring_sha256(again) == scoring_sha256(fitted("notes"))
    assert again.set_thresholds(None).layout_.thresholds.tolist() == fitted("notes").layout_.thresholds.tolist()
    detector.set_thresholds([1, 2, 3])  # whole numbers will do
    assert through_a_file(detector, tmp_path).detect(audio) == detector.detect(audio)


def test_the_header_tells_what_is_in_the_file(fitted, tmp_path):
    save(fitted("notes"), tmp_path / "m")
    header, _ = read(tmp_path / "m")
    assert (header["kind"], header["version"], header["embedding"]) == ("NoteDetector", 2, None)
    front_end = header["model"]["fields"]["front_end"]
    assert (front_end["kind"], front_end["parameters"]["n_slices"]) == ("NoteFrontEnd", 12)  # a default, spelt out
    assert header["versions"]["outlark"] == outlark.__version__
    assert "time" not in json.dumps(header)


def test_clips_are_known_by_number_and_digest(fitted, tmp_path):
    training = through_a_file(fitted("notes"), tmp_path).model_.training
    for number, (note, known) in enumerate(zip(notes(counts=COUNTS), training, strict=True)):
        assert known == {
            "recording": number,
            "name": None,
            "label": note.label,
            "start_s": 0.0,
            "end_s": len(note.samples) / SAMPLE_RATE,
            "sha256": hashlib.sha256(note.samples.astype("<f8").tobytes()).hexdigest(),
            "clip": True,
        }


def test_recordings_are_known_by_file_name(tmp_path):
    audio, truth = concatenate(notes(counts=COUNTS), gap_s=0.2, rng=np.random.default_rng(0))
    soundfile.write(tmp_path / "früh.wav", audio, SAMPLE_RATE, subtype="DOUBLE")
    shown = [Segment.from_seconds(0.1, 0.2, "tuti-D", SAMPLE_RATE)]
    detector = NoteDetector().fit_recordings([tmp_path / "früh.wav", audio], [truth, shown], SAMPLE_RATE)
    training = through_a_file(detector, tmp_path).model_.training
    assert [(n["recording"], n["name"]) for n in training] == [(0, "früh.wav")] * 9 + [(1, None)]
    assert [(n["start_s"], n["end_s"]) for n in training[:-1]] == [(s.start_s, s.end_s) for s in truth]
    assert str(tmp_path) not in json.dumps(read(tmp_path / "m")[0])  # where somebody keeps things is theirs


# ---------------------------------------------------------------- estimators, there and back


def data(counts=(9, 5, 3), n=6):
    return toy_notes.notes(np.random.default_rng(3), list(counts), n=n)


def attributes(model):
    return dict(sorted(vars(model).items()))


ESTIMATORS = {
    "default": MDDKM(),
    "rejects": MDDKM(outlier_label=-99),
    "paper": MDDKM.paper(),
    "centred": MDDKM(center=True, outlier_label="?"),
    "given": MDDKM(sigma=2.0, length_scale=3, sigma_reg=0.1, threshold=[0.1, 0.2, 0.3]),
    "numpy": MDDKM(sigma=np.float32(1.1), quantile=np.float64(0.3), random_state=np.int64(4)),
    "trimmed": MDDKM(trim=0.4, metric="whiten", random_state=None, condition=np.float32(1e6)),
    "subsample": MDDKM(balance="subsample", precision="single", threshold=np.array([1.0, 0.5, 0.25], np.float32)),
    "mapping": MDDKM(threshold={0: 0.5, 1: 0.1, 2: 0.2, 99: float("inf")}, metric="within", max_samples=50),
    "landmarks": MDDKM(landmarks=15, sigma=2.0, length_scale=3.0, sigma_reg=1.0, center=True),
    "pknn": PKNN(),
    "pknn paper": PKNN.paper(outlier_label="none"),
    "pknn given": PKNN(n_neighbors=3, n_prototypes=4, m=1.5, threshold=(0.2, 0.1, 0.3), random_state=None),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_come_back_to_the_last_bit(name, tmp_path):
    X, y, groups = data()
    model = copy.deepcopy(ESTIMATORS[name]).fit(X, y, groups)
    again = through_a_file(model, tmp_path)
    same(attributes(model), attributes(again))  # a new attribute of fit must be kept, too
    Z = np.concatenate([X + 0.3, [[99.0] * 4]])
    for method in ("class_scores", "predict", "p_values", "verdicts", "decision_function"):
        same(getattr(model, method)(Z), getattr(again, method)(Z), method)


NAMES = np.array(["tuti", "ü-D", "whistle"])
LABELS = {
    "str": (NAMES, lambda groups: np.array([f"ä{g}" for g in groups])),
    "object": (NAMES.astype(object), lambda groups: np.array([f"n{g}" for g in groups], dtype=object)),
    "object ints": (np.array([3, 4, 5]), lambda groups: np.array([int(g) for g in groups], dtype=object)),
    "int8": (np.array([-1, 0, 5], np.int8), lambda groups: groups.astype(np.uint16)),
    "float": (np.array([1.0, 2.0, 4.0]), lambda groups: groups / 3),
    "bool": (np.array([False, True, True]), lambda groups: groups),
}


@pytest.mark.parametrize("kind", [MDDKM, PKNN])
@pytest.mark.parametrize("labels", LABELS)
def test_labels_and_notes_of_any_kind(kind, labels, tmp_path):
    X, y, groups = data()
    names, ids = LABELS[labels]
    model = kind().fit(pd.DataFrame(X, columns=["pitch", "ü", "c", "d"]), names[y], ids(groups))
    again = through_a_file(model, tmp_path)
    for name, value in attributes(model).items():
        found = attributes(again)[name]
        if name in ("notes_", "_together") and labels == "str":  # as wide as the longest label of their class
            value, found = [own.tolist() for own in value], [own.tolist() for own in found]
        same(value, found, name)


def test_a_class_of_one_sample_and_copies_of_notes(tmp_path):
    X, y, groups = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = [MDDKM().fit(X[:-5], y[:-5], groups[:-5]), PKNN().fit(X[:-17], y[:-17], groups[:-17])]
    twice = MDDKM().fit(np.concatenate([X, X[:6]]), np.append(y, y[:6]), np.append(groups, [777] * 6))
    for model in (*few, twice):
        same(attributes(model), attributes(through_a_file(model, tmp_path)))


def test_a_loaded_model_explains_and_learns_as_the_original_does(tmp_path, rng):
    X, y, groups = data()
    model = MDDKM(outlier_label="?").fit(X, NAMES[y], groups)
    again = through_a_file(model, tmp_path)
    assert again.explain(X[:20]) == model.explain(X[:20])
    assert str(again.health()) == str(model.health())
    more, other = toy_notes.note(rng, 1, 6), toy_notes.note(rng, 7, 12)
    for one in (model, again):
        one.add_note(more, "ü-D").add_class(other, "alarm", np.repeat([901, 902], 6))
    same(attributes(model), attributes(again))
    same(attributes(model), attributes(through_a_file(model, tmp_path)))


# ---------------------------------------------------------------- what is not saved


class OwnFrontEnd(HLDSFrontEnd):
    pass


class OwnDetector(NoteDetector):
    pass


@pytest.mark.parametrize("model", [OCCGP(), HLDS(), OwnDetector(), type("MDDKM", (MDDKM,), {})(), "MDDKM", MDDKM])
def test_other_models_are_not_saved(model, tmp_path):
    with pytest.raises(InputError, match="cannot be saved; give one of NoteDetector, FrameDetector, MDDKM, PKNN"):
        save(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_what_a_file_cannot_hold(fitted, tmp_path):
    paper = fitted("paper")
    for model in (NoteDetector(), MDDKM()):
        with pytest.raises(NotFittedError):
            save(model, tmp_path / "m")
    changed = copy.copy(paper)
    changed.model_ = replace(paper.model_, front_end=OwnFrontEnd.paper().fit([], SAMPLE_RATE))
    with pytest.raises(InputError, match="of type OwnFrontEnd, which cannot be saved"):
        save(changed, tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"m: the folder .* does not exist"):
        save(paper, tmp_path / "gone" / "m")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- what is not let in


@pytest.fixture(scope="module")
def kept(fitted, tmp_path_factory):
    """Header and arrays of a saved system, to be changed."""
    folder = tmp_path_factory.mktemp("kept")

    def get(name):
        if not (folder / name).exists():
            save(fitted(name), folder / name)
        return read(folder / name)

    return get


def refused(folder, header, arrays):
    """The message with which a file is refused; it begins with the path."""
    write(folder / "m", header, arrays)
    with pytest.raises(ModelFileError) as caught:
        load(folder / "m")
    assert str(caught.value).startswith(f"{folder / 'm'}: ")
    assert len(str(caught.value)) < 1000
    return str(caught.value)


def put(header, path, value):
    changed = copy.deepcopy(header)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


MODEL = ("model", "fields")
FRONT_END = (*MODEL, "front_end", "parameters")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("kind",), "MDDKN", "it holds a 'MDDKN', not one of"),
        (("kind",), ["MDDKM"], "it holds a ['MDDKM']"),
        (("kind",), "MDDKM", "a class model alone (MDDKM), which takes no sound; read it with outlark.load_estimator"),
        (("version",), 1, "it was written by an older version of outlark; train it again"),
        (("version",), 3, "written by a newer outlark?"),
        (("model",), None, "its model is a NoneType"),
        ((*MODEL, "class_model", "kind"), "os.system", "is a 'os.system', which this outlark does not know"),
        ((*MODEL, "class_model", "fields", "predict"), 3, "has other attributes than in the file"),
        ((*MODEL, "wings"), 2, "the model is damaged: "),
        ((*FRONT_END, "wings"), 2, "NoteFrontEnd has other parameters than in the file: ['wings']"),
        ((*FRONT_END, "hop_s"), 1.0, "hop_s=1.0"),
        ((*FRONT_END, "window_s"), 1e9, "more than 262144 samples"),
        ((*FRONT_END, "surroundings_s"), 1e9, "more than 262144 samples"),
        ((*FRONT_END, "n_bands"), 10**9, "more than 1048576 features"),
        ((*FRONT_END, "n_bands"), "forty", "the model is damaged: "),
        ((*FRONT_END, "n_slices"), 10, "its front end gives 400 features, but its class model takes 480"),
        ((*MODEL, "front_end", "fields", "sample_rate_"), 44100, "its sample_rate are 22050"),
        ((*MODEL, "front_end", "fields", "sample_rate_"), 10**400, "the model is damaged: "),
        (("derived", "dict", "hop_samples"), 7, "its hop_samples are 7, but the rest of the file gives 44"),
        (("decisions", "parameters", "least_s"), -1.0, "least_s=-1.0"),
        ((*MODEL, "class_model", "parameters", "outlier_label"), "cach-Z", "outlier_label='cach-Z' is also a class"),
    ],
)
def test_headers_that_are_refused(kept, path, value, message, tmp_path):
    header, arrays = kept("notes")
    assert message in refused(tmp_path, put(header, path, value), arrays)


@pytest.mark.parametrize("path", [("decisions",), ("derived",), (*FRONT_END, "surroundings_s"), (*MODEL, "lengths")])
def test_a_file_of_an_older_outlark_that_lacks_an_entry(kept, path, tmp_path):
    """The default of a parameter may have been another one."""
    header, arrays = kept("notes")
    older = copy.deepcopy(header)
    inner = older
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    assert path[-1] in refused(tmp_path, older, arrays)


@pytest.mark.parametrize("name", ["notes", "series pknn"])
def test_arrays_must_be_there_and_be_numbers(kept, name, tmp_path):
    header, arrays = kept(name)
    for key, array in arrays.items():
        assert key in refused(tmp_path, header, {other: arrays[other] for other in arrays if other != key})
        if array.dtype == np.float64 and array.size:
            holed = array.copy()
            holed.flat[0] = np.nan
            assert f"array {key!r} holds NaN" in refused(tmp_path, header, {**arrays, key: holed})


def test_arrays_of_a_class_model_must_fit(kept, tmp_path):
    header, arrays = kept("notes")
    for key in [key for key in arrays if key.endswith(("/L_inv", "_origin"))]:
        refused(tmp_path, header, {**arrays, key: arrays[key][:-1]})


def places(value, path=()):
    """Where everything is in nested JSON."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 1)):
            yield from places(value[key], (*path, key))


@pytest.mark.parametrize("name", ["notes", "series"])
def test_junk_anywhere_in_the_header(kept, name, tmp_path, monkeypatch):
    """Each is refused with ModelFileError, or is a setting that might have been; nothing else is raised."""
    header, arrays = kept(name)
    skipped = ("trials_", "training", "left_out_scores_", "calibration", "threshold_sources", "versions")
    n_refused = total = 0
    for path in places({part: header[part] for part in ("model", "decisions", "derived")}):
        if set(skipped) & set(path):
            continue
        for junk in (None, -1, 10**400, "junk"):
            changed = put(header, path, junk)
            monkeypatch.setattr(model_file, "read", lambda _, changed=changed: (changed, dict(arrays)))
            total += 1
            try:
                load("m")
            except ModelFileError as error:
                n_refused += len(str(error)) < 1000
    assert n_refused > 0.6 * total


def test_estimators_and_detectors_are_told_apart(fitted, tmp_path):
    X, y, groups = data()
    save(MDDKM().fit(X, y, groups), tmp_path / "table.outlark")
    with pytest.raises(ModelFileError, match=r"table\.outlark: .*class model alone \(MDDKM\).*load_estimator"):
        load(tmp_path / "table.outlark")
    with pytest.raises(ModelFileError, match="class model alone"):
        model_content(tmp_path / "table.outlark")
    save(fitted("notes"), tmp_path / "song.outlark")
    with pytest.raises(ModelFileError, match=r"it holds a NoteDetector; read it with outlark\.load"):
        load_estimator(tmp_path / "song.outlark")


# ---------------------------------------------------------------- models of earlier code


def stored_detector(name):
    """What is in tests/models; its threshold of one class was set by hand."""
    examples = notes(counts={"tuti-F": 3, "cach-Z": 3})
    clips = [channels(name, resample(n.samples, SAMPLE_RATE, 8000)) for n in examples]
    make = NoteDetector() if name == "notes" else FrameDetector(ArrayFrontEnd(n_bands=3), MDD, Rules(activity_db=None))
    return make.fit(clips, [n.label for n in examples], 8000).set_thresholds({"tuti-F": 0.4})


def stored_estimator(name):
    X = np.random.default_rng(0).normal(size=(24, 3)) + np.repeat([[0.0], [3.0]], 12, axis=0)
    landmarks = MDDKM(landmarks=10, sigma=1.0, length_scale=9.0, sigma_reg=2.0)
    model = {"mddkm": MDDKM(), "landmarks": landmarks, "pknn": PKNN(random_state=0)}[name]
    return model.fit(X, np.repeat(["a", "b"], 12)), X[::6] + 0.3


@pytest.mark.parametrize("name", ["notes", "series"])
def test_detectors_of_earlier_code_find_the_same(name):
    played = notes(seed=1, counts={"tuti-F": 1, "cach-Z": 1})
    audio = concatenate(played, gap_s=0.3, edge_s=0.3, rng=np.random.default_rng(1))[0]
    audio = channels(name, resample(audio, SAMPLE_RATE, 8000))
    found, expected = (model.detect(audio, 8000) for model in (load(STORED / f"{name}.outlark"), stored_detector(name)))
    assert [[s.label, s.start, s.end] for s in found] == [[s.label, s.start, s.end] for s in expected]
    assert "tuti-F" in [s.label for s in found]
    np.testing.assert_allclose([s.score for s in found], [s.score for s in expected], rtol=1e-6)


@pytest.mark.parametrize("name", ["mddkm", "landmarks", "pknn"])
def test_estimators_of_earlier_code_score_the_same(name):
    model, Z = stored_estimator(name)
    found = load_estimator(STORED / f"{name}.outlark").class_scores(Z)
    np.testing.assert_allclose(found, model.class_scores(Z), rtol=1e-6)


def test_a_model_of_version_1_has_to_be_trained_again():
    with pytest.raises(ModelFileError, match="written by an older version of outlark; train it again"):
        load(STORED / "version-1.outlark")


def test_loading_does_not_serialise_again(monkeypatch):
    monkeypatch.setattr(model_file, "pack", None)
    load(STORED / "notes.outlark")
