"""A detector in a file: the same scores and segments to the last bit, and no file whatever does anything but fail."""

import copy
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from sklearn.exceptions import NotFittedError

import outlark
from outlark import MDDKM, OCCGP, PKNN, InputError
from outlark.audio.sound import resample
from outlark.commands.inspect import model_content
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.errors import ModelFileError
from outlark.features.array import ArrayFrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.files.container import read, write
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector
from outlark.segments import Segment
from outlark.storage.model_file import detector_from, load, load_estimator, save

COUNTS = {"tuti-D": 3, "tuti-F": 3, "cach-Z": 3}
# What describes frames has fixed settings here: choosing them is tested elsewhere and takes long.
MDD = MDDKM(metric="euclidean", sigma_reg="condition", condition=1e6, max_samples=200)
SYSTEMS = {
    "whole notes": NoteDetector,
    "unchanged": lambda: NoteDetector(NoteFrontEnd(n_bands=20, change=0.0, shifts_s=[0.0])),
    "paper": FrameDetector.paper,
    "hlds": lambda: FrameDetector(HLDSFrontEnd(lag_s=np.float64(0.01), output=(0, 2)), MDD, gap_s=0.2),
    "series": lambda: FrameDetector(ArrayFrontEnd(), MDD, Rules(activity_db=None)),
    "series pknn": lambda: FrameDetector(ArrayFrontEnd(window_s=0.01, measure_activity=False), PKNN(random_state=0)),
}
NUMBERS = {"tuti-D": 3, "tuti-F": 1, "cach-Z": 2}


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


# ---------------------------------------------------------------- there and back


def same(a, b, where=""):
    """Equal to the last bit, in value, type and memory order, however deep."""
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.flags.c_contiguous) == (b.dtype, b.shape, b.flags.c_contiguous), where
        assert a.tobytes() == b.tobytes(), where
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            same(one, other, f"{where}[{i}]")
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            same(a[key], b[key], f"{where}.{key}")
    elif hasattr(a, "__dict__"):
        same(vars(a), vars(b), where)
    else:
        assert repr(a) == repr(b), where


@pytest.mark.parametrize("name", SYSTEMS)
def test_scores_and_segments_to_the_last_bit(fitted, name, tmp_path):
    detector, audio = fitted(name), channels(name, recording())
    save(detector, tmp_path / "m")
    again = load(tmp_path / "m")
    scores, found = detector.scores(audio, SAMPLE_RATE), again.scores(audio, SAMPLE_RATE)
    same(scores.block, found.block)
    segments = detector.detect(audio, SAMPLE_RATE)
    assert any(s.label is not None for s in segments) or name == "paper"
    assert again.detect(audio, SAMPLE_RATE) == again.decide(found) == again.decide(scores) == segments
    stream = again.stream()
    live = [s for piece in np.array_split(audio, 7) for s in stream.push(piece).segments]
    assert live + stream.finish().segments == segments
    same([s.label for s in segments], [s.label for s in again.detect(audio, SAMPLE_RATE)])


@pytest.mark.parametrize("name", SYSTEMS)
def test_all_that_fit_learns_is_kept(fitted, name, tmp_path):
    """A new attribute of a part must be kept, too."""
    detector = fitted(name)
    save(detector, tmp_path / "m")
    again = load(tmp_path / "m")
    learnt = {key: value for key, value in vars(detector).items() if key.endswith("_")}
    same(learnt, {key: value for key, value in vars(again).items() if key.endswith("_")})
    assert again.class_model_.classes_ is again.classes_ is again.layout_.classes
    if again.note_model_ is not None:
        assert again.note_model_.class_model is again.class_model_
    if detector.model_.choice:
        assert again.front_end is None  # it chooses itself again
    absolute = detector.note_model_ is not None and detector.note_model_.contrast_db is not None
    if absolute:
        assert again.class_model is None  # the absolute scale once more
    for part in ([] if detector.model_.choice else ["front_end"]) + ([] if absolute else ["class_model"]):
        spelt_out = getattr(again, part)
        same(spelt_out.get_params(), getattr(detector, f"{part}_").get_params())
        assert not [key for key in vars(spelt_out) if key.endswith("_")]
    same(again.decisions.get_params(), detector.decisions_.get_params())
    assert again.gap_s == detector.gap_s


def test_a_loaded_detector_learns_and_is_saved_again(fitted, tmp_path):
    save(fitted("whole notes"), tmp_path / "a")
    again = load(tmp_path / "a")
    save(again, tmp_path / "b")
    examples = notes(counts=COUNTS)
    save(again.fit([n.samples for n in examples], [n.label for n in examples], SAMPLE_RATE), tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_thresholds_set_by_hand_and_decisions_changed_later(fitted, tmp_path):
    detector = copy.copy(fitted("whole notes")).set_params(decisions=Decisions(activity_db=3.0))
    detector.model_ = replace(detector.model_, by_hand={"cach-Z": np.inf, "tuti-D": 0.1})
    save(detector, tmp_path / "m")
    again, audio = load(tmp_path / "m"), recording()
    assert again.layout_.thresholds.tolist() == [np.inf, 0.1, detector.trained_thresholds[2]]
    assert again.detect(audio) == detector.detect(audio) != fitted("whole notes").detect(audio)
    assert again.set_thresholds(None).layout_.thresholds.tolist() == fitted("whole notes").layout_.thresholds.tolist()
    detector.set_thresholds([1, 2, 3])  # whole numbers will do
    save(detector, tmp_path / "m")
    assert load(tmp_path / "m").detect(audio) == detector.detect(audio)


@pytest.mark.parametrize("given", [None, np.array([0.5, np.inf, 1.0])])
def test_thresholds_of_the_mean_over_a_note(fitted, given, tmp_path):
    detector = copy.copy(fitted("hlds"))
    stage = replace(detector.model_.first_stage, note_thresholds=given)
    detector.model_ = replace(detector.model_, first_stage=stage)
    save(detector, tmp_path / "m")
    same(load(tmp_path / "m").layout_.note_thresholds, given)


# ------------------------------------------------------------- what it was made from


def test_the_header_tells_what_is_in_the_file(fitted, tmp_path):
    save(fitted("whole notes"), tmp_path / "m")
    header, arrays = read(tmp_path / "m")
    assert header["classes"] == ["cach-Z", "tuti-D", "tuti-F"]
    assert header["sample_rate"] == SAMPLE_RATE
    assert header["front_end"]["kind"] == "NoteFrontEnd"
    assert header["front_end"]["parameters"]["n_slices"] == 12  # a default, spelt out
    assert header["describer"]["kind"] == "MDDKM"
    assert header["decisions"]["parameters"]["decoder"] == "auto"
    assert set(header["versions"]) == {"outlark", "numpy", "scipy", "scikit-learn"}
    assert header["versions"]["outlark"] == outlark.__version__
    assert arrays["layout/thresholds"].shape == arrays["layout/shortest_s"].shape == (3,)
    assert "time" not in json.dumps(header)


def test_clips_are_known_by_number_and_digest(fitted, tmp_path):
    save(fitted("whole notes"), tmp_path / "m")
    training = load(tmp_path / "m").model_.training
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
    assert read(tmp_path / "m")[0]["training"] == training


def test_recordings_are_known_by_file_name(tmp_path):
    audio, truth = concatenate(notes(counts=COUNTS), gap_s=0.2, rng=np.random.default_rng(0))
    soundfile.write(tmp_path / "früh.wav", audio, SAMPLE_RATE, subtype="DOUBLE")
    shown = [Segment.from_seconds(0.1, 0.2, "tuti-D", SAMPLE_RATE)]
    detector = NoteDetector().fit_recordings([tmp_path / "früh.wav", audio], [truth, shown], SAMPLE_RATE)
    save(detector, tmp_path / "m")
    training = load(tmp_path / "m").model_.training
    assert [(n["recording"], n["name"]) for n in training] == [(0, "früh.wav")] * 9 + [(1, None)]
    assert [(n["start_s"], n["end_s"]) for n in training[:-1]] == [(s.start_s, s.end_s) for s in truth]
    own = audio[shown[0].start : shown[0].end]
    assert training[-1]["sha256"] == hashlib.sha256(own.tobytes()).hexdigest()
    assert str(tmp_path) not in json.dumps(read(tmp_path / "m")[0])  # where somebody keeps things is theirs


# ---------------------------------------------------------------- what is not saved


class OwnFrontEnd(HLDSFrontEnd):
    pass


class OwnDetector(NoteDetector):
    pass


def test_what_a_file_cannot_hold(fitted, tmp_path):
    paper = fitted("paper")
    with pytest.raises(NotFittedError):
        save(NoteDetector(), tmp_path / "m")
    with pytest.raises(InputError, match="OwnDetector cannot be saved; give a NoteDetector"):
        save(OwnDetector(), tmp_path / "m")
    changed = copy.copy(paper)
    changed.model_ = replace(paper.model_, front_end=OwnFrontEnd.paper().fit([], SAMPLE_RATE))
    with pytest.raises(InputError, match="OwnFrontEnd cannot be saved; use one of HLDSFrontEnd, NoteFrontEnd"):
        save(changed, tmp_path / "m")
    changed = copy.copy(paper)
    changed.model_ = replace(paper.model_, class_model=OCCGP())
    with pytest.raises(InputError, match="OCCGP cannot be saved; use one of MDDKM, PKNN"):
        save(changed, tmp_path / "m")
    with pytest.raises(InputError, match="must be a Rules"):
        save(copy.copy(paper).set_params(decisions=Decisions()), tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"m: the folder .* does not exist"):
        save(paper, tmp_path / "gone" / "m")
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------- what is not let in


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


@pytest.mark.parametrize("name", ["whole notes", "series pknn"])
def test_arrays_must_be_there_and_fit(kept, name):
    header, arrays = kept(name)
    ours = [key for key in arrays if not key.startswith("describer/")]  # these have tests of their own
    assert len(ours) >= {"whole notes": 10, "series pknn": 6}[name]
    for key in ours:
        field, array = key.split("/")[1], arrays[key]
        bad = [array[:-1], array[..., np.newaxis], array.astype(np.float32)]
        bad += [np.full_like(array, np.nan)] if array.dtype == np.float64 else []
        bad += [-array] if field in ("shortest_s", "longest_s", "lengths", "scale") else []
        for wrong in bad:
            with pytest.raises(ModelFileError):
                detector_from(header, {**arrays, key: wrong})
        if field not in ("note_thresholds", "contrast_db"):  # not every detector has them
            with pytest.raises(ModelFileError, match=f"array {field!r} is missing"):
                detector_from(header, {other: array for other, array in arrays.items() if other != key})


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        (
            "layout/thresholds",
            lambda a: np.ones(4),
            r"'thresholds' is float64 of shape \(4,\) and must be float64",
        ),
        ("notes/contrast_db", lambda a: np.array([5.9]), r"array 'contrast_db' is \[5.9\], not 6 to 40"),
        ("notes/left_out_counts", lambda a: a + 1, "array 'left_out' holds 9 rows, but 'left_out_counts' is"),
        ("notes/left_out_counts", lambda a: np.array([2**63 - 1, 2**63 - 1, 11]), "array 'left_out' holds 9 rows"),
        ("notes/left_out", lambda a: -a, "must hold the scores of each class in order"),
        ("notes/allowed", np.zeros_like, "the detector is damaged"),
    ],
)
def test_arrays_that_cannot_be(kept, key, change, message, tmp_path):
    header, arrays = kept("whole notes")
    with pytest.raises(ModelFileError, match=message):
        detector_from(header, {**arrays, key: change(arrays[key])})


def test_thresholds_have_one_source(kept, tmp_path):
    """Those in use are those of the training, calibrated or set by hand, and a file that says otherwise is refused."""
    header, arrays = kept("whole notes")
    higher = {**arrays, "layout/thresholds": arrays["layout/thresholds"] + 0.1}
    assert "but the rest of the file gives" in refused(tmp_path, header, higher)
    write(tmp_path / "m", {**header, "threshold_sources": ["hand", "hand", "hand"]}, higher)
    assert load(tmp_path / "m").layout_.thresholds.tolist() == higher["layout/thresholds"].tolist()
    for sources in (None, [], ["hand"] * 2, ["calibration"] * 3, ["luck"] * 3):
        refused(tmp_path, {**header, "threshold_sources": sources}, arrays)


# the last: 9 as well, if int64 overflows


@pytest.mark.parametrize("name", ["whole notes", "paper", "series"])
def test_a_class_model_of_another_width(kept, name, tmp_path):
    """That of another detector with the same classes."""
    header, arrays = kept(name)
    other, more = kept("hlds")
    mixed = {key: array for key, array in arrays.items() if not key.startswith("describer/")}
    mixed |= {key: array for key, array in more.items() if key.startswith("describer/")}
    message = refused(tmp_path, {**header, "describer": other["describer"]}, mixed)
    assert f"its {header['front_end']['kind']} gives " in message
    assert "features, but its class model takes 24" in message


@pytest.mark.parametrize("part", ["front_end", "describer", "decisions"])
def test_parts_of_a_newer_outlark(kept, part, tmp_path):
    header, arrays = kept("paper")
    for kind in ("Wings", "os.system", "HLDS", "", None, ["MDDKM"], 3):
        message = refused(tmp_path, put(header, (part, "kind"), kind), arrays)
        assert f"of kind {kind!r}; this outlark knows " in message
        assert "written by a newer outlark?" in message
    message = refused(tmp_path, put(header, (part, "parameters", "wings"), 2), arrays)
    assert "has no parameters ['wings']; written by a newer outlark?" in message
    for junk in (None, [], 3, "MDDKM"):
        refused(tmp_path, {**header, part: junk}, arrays)
    refused(tmp_path, {key: value for key, value in header.items() if key != part}, arrays)


def test_more_than_is_known_is_no_harm(kept, tmp_path):
    header, arrays = kept("paper")
    more = {**header, "more": 1, "decisions": {**header["decisions"], "more": [1]}}
    write(tmp_path / "m", more, {**arrays, "more": np.zeros(3), "front_end/more": np.zeros(2)})
    assert load(tmp_path / "m").decisions.get_params() == Rules.paper().get_params()


@pytest.mark.parametrize(("name", "decoder"), [("whole notes", "auto"), ("paper", "rules"), ("paper", "viterbi")])
def test_files_from_before_there_were_two_kinds_of_decisions(kept, name, decoder, tmp_path):
    header, arrays = copy.deepcopy(kept(name))
    now = header["decisions"]["parameters"]
    older = {"decoder": decoder, "max_region_s": 60.0, "sure_s": "auto", "confirm": True, **now}
    header["decisions"] = {"kind": "Decisions", "parameters": older}
    if decoder == "viterbi":
        assert "it decides by Viterbi, which is gone" in refused(tmp_path, header, arrays)
        return
    write(tmp_path / "m", header, arrays)
    assert load(tmp_path / "m").decisions.get_params() == now


@pytest.mark.parametrize(
    ("part", "name"),
    [("front_end", "surroundings_s"), ("describer", "quantile"), ("decisions", "unknown_s")],
)
def test_a_file_of_an_older_outlark_that_lacks_a_parameter(kept, part, name, tmp_path):
    """Its default may have been another one: surroundings_s used to be 0, for example."""
    header, arrays = kept("whole notes")
    older = copy.deepcopy(header)
    del older[part]["parameters"][name]
    message = refused(tmp_path, older, arrays)
    assert f"lacks the parameters ['{name}']" in message
    assert message.endswith("it was written by an older version of outlark; train it again")


@pytest.mark.parametrize("name", ["choice", "frames", "training", "sample_rate", "threshold_sources"])
def test_a_file_of_an_older_outlark_that_lacks_an_entry(kept, name, tmp_path):
    header, arrays = kept("whole notes")
    message = refused(tmp_path, {key: value for key, value in header.items() if key != name}, arrays)
    assert f"it has no '{name}': it was written by an older version of outlark; train it again" in message


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("kind",), "MDDKN", "it holds a 'MDDKN', not a NoteDetector; written by a newer outlark?"),
        (
            ("kind",),
            "MDDKM",
            "it holds a class model alone (MDDKM), which takes no sound; read it with outlark.load_estimator",
        ),
        (("classes",), ["cach-Z", "tuti-D"], "its classes are"),
        (("classes",), None, "its classes are None"),
        (("sample_rate",), 44100, "its frames are"),
        (("sample_rate",), 0, "sample_rate=0"),
        (("sample_rate",), 10**400, "damaged"),
        (("frames", "hop_samples"), 7, "its frames are"),
        (("frames",), None, "its frames are None"),
        (("front_end", "parameters", "hop_s"), 1.0, "hop_s=1.0"),
        (("front_end", "parameters", "window_s"), 1e9, "more than 262144 samples"),
        (("front_end", "parameters", "n_bands"), 10**9, "NoteFrontEnd gives 12000000000 features"),
        (("front_end", "parameters", "surroundings_s"), 1e9, "surroundings_s=1000000000.0 is more than 262144 samples"),
        (("front_end", "parameters", "surroundings_s"), -1.0, "surroundings_s=-1.0 must be"),
        (("front_end", "parameters", "n_bands"), "forty", "n_bands='forty'"),
        (("front_end", "parameters", "n_slices"), 10, "gives 400 features, but its class model takes 480"),
        (("decisions", "kind"), "Dice", "way to decide of kind 'Dice'"),
        (("decisions", "parameters", "bridge_s"), -1.0, "bridge_s=-1.0"),
        (("training",), None, "instead of a list, each of a training note, it has None"),
        (("training",), [3], "a training note is 3"),
        (("training", 0, "label"), "cach-E", "a training note is"),
        (("training", 0, "name"), 3, "a training note is"),
        (("training", 0), {}, "a training note is"),
    ],
)
def test_headers_that_are_refused(kept, path, value, message, tmp_path):
    header, arrays = kept("whole notes")
    assert message in refused(tmp_path, put(header, path, value), arrays)


def places(value, path=()):
    """Where everything is in nested JSON."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 1)):
            yield from places(value[key], (*path, key))


JUNK = [None, -1, 10**400, 1e9, "junk", {"mapping": []}]


@pytest.mark.parametrize("name", ["whole notes", "series"])
def test_junk_anywhere_in_the_header(kept, name):
    """Each is refused with ModelFileError, or is a setting that might have been; nothing else is raised."""
    header, arrays = kept(name)
    parts = ("front_end", "decisions", "training", "sample_rate", "gap_s")  # the class_model has a test of its own
    n_refused = total = 0
    for path in places({part: header[part] for part in parts}):
        for junk in JUNK:
            total += 1
            try:
                detector_from(put(header, path, junk), dict(arrays))
            except ModelFileError as error:
                n_refused += len(str(error)) < 1000
    assert n_refused > 0.6 * total


def test_the_version_is_written_once():
    source = Path(outlark.__file__).parent
    assert f'"{outlark.__version__}"' in (source / "version.py").read_text()
    assert outlark.__version__ not in (source / "__init__.py").read_text()


@pytest.mark.parametrize("make", [MDDKM, PKNN])
def test_an_estimator_by_itself(make, rng, tmp_path):
    X, y = rng.normal(size=(60, 3)), np.repeat(["a", "b"], 30)
    X[y == "b"] += 4.0
    model = make(outlier_label="none").fit(X, y)
    path = tmp_path / "table.outlark"
    save(model, path)
    again = load_estimator(path)
    assert type(again) is make
    Z = rng.normal(size=(50, 3)) * 5.0
    np.testing.assert_array_equal(again.class_scores(Z), model.class_scores(Z))
    np.testing.assert_array_equal(again.predict(Z), model.predict(Z))
    assert set(read(path)[0]["versions"]) == {"outlark", "numpy", "scipy", "scikit-learn"}
    with pytest.raises(ModelFileError, match=rf"table\.outlark: .*model alone \({make.__name__}\).*load_estimator"):
        load(path)
    with pytest.raises(ModelFileError, match="class model alone"):
        model_content(path)


def test_a_detector_is_no_estimator(fitted, tmp_path):
    path = tmp_path / "song.outlark"
    save(fitted("paper"), path)
    with pytest.raises(ModelFileError, match=r"it holds a NoteDetector; read it with outlark\.load"):
        load_estimator(path)


def test_other_estimators_are_refused(tmp_path):
    with pytest.raises(InputError, match="OCCGP cannot be saved; give a NoteDetector, or one of MDDKM, PKNN"):
        save(OCCGP(), tmp_path / "one.outlark")
    assert not list(tmp_path.iterdir())


# ----------------------------------------------------------- models of earlier code

MODELS = Path(__file__).parent / "models"
EXPECTED = json.loads((MODELS / "expected.json").read_text())


def test_detectors_of_earlier_code_find_the_same():
    """Saved before the first release, with a threshold set by hand, and with two channels."""
    played = notes(seed=1, counts={"tuti-F": 1, "cach-Z": 1})
    audio = concatenate(played, gap_s=0.3, edge_s=0.3, rng=np.random.default_rng(1))[0]
    audio = resample(audio, SAMPLE_RATE, 8000)
    for name, signal in (("notes", audio), ("series", np.column_stack([audio, np.roll(audio, 9)]))):
        found = load(MODELS / f"{name}.outlark").detect(signal, 8000)
        assert [[s.label, s.start, s.end] for s in found] == [row[:3] for row in EXPECTED[name]]
        np.testing.assert_allclose([s.score for s in found], [row[3] for row in EXPECTED[name]], rtol=1e-6)


@pytest.mark.parametrize("name", ["mddkm", "landmarks", "pknn"])
def test_estimators_of_earlier_code_score_the_same(name):
    X = np.random.default_rng(0).normal(size=(24, 3)) + np.repeat([[0.0], [3.0]], 12, axis=0)
    found = load_estimator(MODELS / f"{name}.outlark").class_scores(X[::6] + 0.3)
    np.testing.assert_allclose(found, EXPECTED[name], rtol=1e-6)


def test_loading_does_not_serialise_again(monkeypatch):
    monkeypatch.setattr("outlark.storage.model_file.estimator_state", None)
    load(MODELS / "notes.outlark")
