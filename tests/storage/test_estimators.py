"""Settings and arrays of a fitted estimator: back to the last bit, through a file, and nothing wrong is let in."""

import copy
import json
import re
import warnings
from dataclasses import is_dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from outlark import HLDS, MDDKM, OCCGP, PKNN, InputError
from outlark.errors import ModelFileError
from outlark.files.container import read, write
from outlark.files.fields import decoded, encoded
from outlark.storage.model_file import estimator_from, estimator_state
from tests.toy_notes import note, notes

NAMES = np.array(["tuti", "ü-D", "whistle"])


def data(counts=(9, 5, 3), n=6):
    return notes(np.random.default_rng(3), list(counts), n=n)


def through_a_file(model, folder):
    state, arrays = estimator_state(model)
    write(folder / "model", {"model": state}, arrays)
    header, arrays = read(folder / "model")
    return estimator_from(header["model"], arrays)


def same(a, b, name=""):
    """Equal to the last bit, in value and type, however deep."""
    assert type(a) is type(b), name
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.flags.c_contiguous) == (b.dtype, b.shape, b.flags.c_contiguous), name
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), name
    elif is_dataclass(a):
        same(vars(a), vars(b), name)
    elif isinstance(a, dict):
        assert list(a) == list(b), name
        for key in a:
            same(a[key], b[key], f"{name}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), name
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            same(one, other, f"{name}[{i}]")
    else:
        assert repr(a) == repr(b), name


def attributes(model):
    return dict(sorted(vars(model).items()))


MODELS = {
    "default": MDDKM(),
    "rejects": MDDKM(outlier_label=-99),
    "paper": MDDKM.paper(),
    "centred": MDDKM(center=True, outlier_label="?"),
    "given": MDDKM(sigma=2.0, length_scale=3, sigma_reg=0.1, threshold=[0.1, 0.2, 0.3]),
    "numpy": MDDKM(
        sigma=np.float32(1.1), quantile=np.float64(0.3), threshold=np.float32(0.1), random_state=np.int64(4)
    ),
    "trimmed": MDDKM(trim=0.4, metric="whiten", random_state=None, condition=np.float32(1e6)),
    "subsample": MDDKM(balance="subsample", precision="single", threshold=np.array([1.0, 0.5, 0.25], np.float32)),
    "mapping": MDDKM(threshold={0: 0.5, 1: 0.1, 2: 0.2, 99: float("inf")}, metric="within", max_samples=50),
    "landmarks": MDDKM(landmarks=15, sigma=2.0, length_scale=3.0, sigma_reg=1.0, center=True),
    "landmarks auto": MDDKM(landmarks="auto"),
    "pknn": PKNN(),
    "pknn paper": PKNN.paper(outlier_label="none"),
    "pknn given": PKNN(n_neighbors=3, n_prototypes=4, m=1.5, threshold=(0.2, 0.1, 0.3), random_state=None),
}


@pytest.mark.parametrize("name", MODELS)
def test_everything_comes_back_to_the_last_bit(name, tmp_path):
    X, y, groups = data()
    model = copy.deepcopy(MODELS[name]).fit(X, y, groups)
    again = through_a_file(model, tmp_path)
    assert attributes(again).keys() == attributes(model).keys()  # a new attribute of fit must be kept, too
    same(attributes(model), attributes(again))
    Z = np.concatenate([X + 0.3, [[99.0] * 4]])
    for method in ("class_scores", "predict", "p_values", "verdicts", "decision_function"):
        same(getattr(model, method)(Z), getattr(again, method)(Z), method)
    same(model.p_values(X, groups), again.p_values(X, groups))


LABELS = {
    "str": (NAMES, lambda groups: np.array([f"ä{g}" for g in groups])),
    "wide str": (NAMES.astype("<U40"), lambda groups: np.array([f"n{g}" for g in groups]).astype("<U30")),
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
    model = kind().fit(X, names[y], ids(groups))
    again = through_a_file(model, tmp_path)
    same(attributes(model), attributes(again))
    same(model.predict(X), again.predict(X))


@pytest.mark.parametrize("kind", [MDDKM, PKNN])
def test_names_of_features(kind, tmp_path):
    X, y, groups = data()
    frame = pd.DataFrame(X, columns=["pitch", "ü", "c", "d"])
    model = kind().fit(frame, y, groups)
    again = through_a_file(model, tmp_path)
    same(attributes(model), attributes(again))
    again.predict(frame)
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame.rename(columns={"c": "C"}))


def test_copies_of_notes_stay_together(tmp_path):
    X, y, groups = data()
    twice = np.concatenate([X, X[:6]]), np.append(y, y[:6]), np.append(groups, [777] * 6)
    model = MDDKM().fit(*twice)
    again = through_a_file(model, tmp_path)
    assert not np.array_equal(again._together[0], again.notes_[0])
    same(attributes(model), attributes(again))


def test_a_class_of_one_sample(tmp_path):
    X, y, groups = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MDDKM().fit(X[:-5], y[:-5], groups[:-5])
        one = PKNN().fit(X[:-17], y[:-17], groups[:-17])
    for fitted in (model, one):
        again = through_a_file(fitted, tmp_path)
        same(attributes(fitted), attributes(again))
        same(fitted.p_values(X), again.p_values(X))


def test_the_order_in_memory_is_kept(tmp_path):
    X, y, groups = data()
    model = MDDKM(metric="whiten").fit(X, y, groups)
    for order in "CF":
        model.feature_map_ = np.array(model.feature_map_, order=order)
        again = through_a_file(model, tmp_path)
        assert again.feature_map_.flags.f_contiguous == (order == "F")
        same(model.class_scores(X), again.class_scores(X))


def test_a_loaded_model_explains_and_learns_as_the_original_does(tmp_path, rng):
    X, y, groups = data()
    model = MDDKM(outlier_label="?").fit(X, NAMES[y], np.array([f"n{g}" for g in groups]))
    again = through_a_file(model, tmp_path)
    assert again.explain(X[:20]) == model.explain(X[:20])
    assert str(again.health()) == str(model.health())
    more, other = note(rng, 1, 6), np.concatenate([note(rng, 7, 6), note(rng, 7, 6)])
    for fitted in (model, again):
        fitted.add_note(more, "ü-D").add_class(other, "alarm", np.repeat(["x", "y"], 6)).add_note(
            more + 1, "alarm", "z"
        )
    same(attributes(model), attributes(again))
    same(model.class_scores(X), again.class_scores(X))
    same(attributes(model), attributes(through_a_file(model, tmp_path)))


def test_what_is_kept_does_not_follow_the_model():
    X, y, groups = data()
    model = MDDKM(metric="within").fit(X, y, groups)
    state, arrays = estimator_state(model)
    before = copy.deepcopy((state, arrays))
    for array in (model.thresholds_, model.feature_map_, model.descriptions_[0].X, model.notes_[0]):
        array += 1
    same(before[0], state)
    same(before[1], arrays)


# ------------------------------------------------------------ what cannot be saved


class Mine(MDDKM):
    pass


ALIAS = type("MDDKM", (MDDKM,), {})  # another class of the same name


@pytest.mark.parametrize("estimator", [OCCGP(), HLDS(), Mine(), ALIAS(), "MDDKM", None, MDDKM])
def test_only_class_models_are_saved(estimator):
    with pytest.raises(InputError, match="cannot be saved; use one of MDDKM, PKNN"):
        estimator_state(estimator)


def test_not_fitted():
    with pytest.raises(NotFittedError):
        estimator_state(MDDKM())


# ----------------------------------------------------------------- values in JSON

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.floats(width=32).map(np.float32)
    | st.floats().map(np.float64)
    | st.integers(0, 2**64 - 1).map(np.uint64)
    | st.booleans().map(np.bool_)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
        | st.lists(st.floats(allow_nan=False), max_size=4).map(np.array)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=50)
@given(VALUES)
def test_values_come_back_in_value_and_type(value):
    text = json.dumps(encoded(value, "v"), allow_nan=False)
    same(value, decoded(json.loads(text), "v"))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"tuple": 3},
        {"float": "1"},
        {"mapping": [[[], 1]]},
        {"numpy": "object", "value": 1},
        {"numpy": "int8", "value": 300},
        {"array": [[1], [1, 2]], "dtype": "float64"},
        {"array": [1], "dtype": "O"},
    ],
)
def test_values_that_stand_for_nothing(value):
    with pytest.raises(ModelFileError, match=r"v is .*not a stored value"):
        decoded(value, "v")


# --------------------------------------------------------------- what is not let in


@pytest.fixture(scope="module", params=["MDDKM", "landmarks", "PKNN"])
def state(request):
    X, y, groups = data((3, 3), n=4)
    kind = {
        "MDDKM": MDDKM(trim=0.0, threshold={"a": 0.1, "b": 0.2}),
        "landmarks": MDDKM(landmarks=8, sigma=2.0, length_scale=9.0, sigma_reg=2.0, threshold={"a": 0.1, "b": 0.2}),
        "PKNN": PKNN(),
    }[request.param]
    return estimator_state(kind.fit(X, np.array(["a", "b"], object)[y], np.array([f"n{g}" for g in groups])))


def test_nothing_may_be_missing(state):
    settings_, arrays = state
    for name in arrays:
        with pytest.raises(ModelFileError, match=re.escape(name)):
            estimator_from(settings_, {key: array for key, array in arrays.items() if key != name})
    for group in ("values", "labels"):
        for name in settings_[group]:
            fewer = {key: value for key, value in settings_[group].items() if key != name}
            with pytest.raises(ModelFileError, match=re.escape(name)):
                estimator_from({**settings_, group: fewer}, arrays)


def test_arrays_must_fit(state):
    settings_, arrays = state
    for name, array in arrays.items():
        wrong = [array.astype(np.float32), array[..., np.newaxis], np.array(1.0), array.astype(complex)]
        if "left_out" not in name or (settings_["kind"], name[2:]) == ("MDDKM", "left_out_scores"):
            wrong += [array[:-1], np.concatenate([array, array])]
        if array.dtype == float:
            holed = array.copy()
            holed.flat[0] = np.nan
            wrong.append(holed)
        if array.dtype == float and name != "thresholds":
            endless = array.copy()
            endless.flat[0] = np.inf
            wrong.append(endless)
        for bad in wrong:
            with pytest.raises(ModelFileError, match=r"^array '"):
                estimator_from(settings_, {**arrays, name: bad})


def places(value, path=()):
    """Where everything is in nested JSON."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def test_junk_anywhere_in_the_settings(state):
    """Each is refused with ModelFileError, or is a setting that might have been; nothing else is raised."""
    settings_, arrays = state
    junk = [None, -1, 10**400, 0.5, "junk", [], {}, {"float": "nan"}]
    refused = total = 0
    for path in places(settings_):
        for value in junk if path else [None, [], 3]:
            changed = copy.deepcopy(settings_)
            if path:
                inner = changed
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = value
            else:
                changed = value
            total += 1
            try:
                estimator_from(changed, dict(arrays))
            except ModelFileError as error:
                refused += len(str(error)) < 500
    assert refused > 0.6 * total


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "OCCGP"}, "kind 'OCCGP'; this outlark knows MDDKM, PKNN"),
        ({"kind": "os.system"}, "kind 'os.system'"),
        ({"kind": ["MDDKM"]}, "kind"),
        ({"parameters": {"wings": 2}}, r"no parameters \['wings'\].*newer outlark"),
        ({"parameters": {"self": 2}}, "no parameters"),
        ({"parameters": []}, "not a dict"),
        ({"values": []}, "'values' of the model"),
        ({"labels": {"classes": {"width": 10**9, "entries": ["a", "b"]}}}, "classes"),
        ({"labels": {"classes": {"width": 1, "entries": ["aa", "b"]}}}, "classes"),
        ({"labels": {"classes": {"width": 1, "entries": ["a", "a"]}}}, "distinct"),
        ({"labels": {"classes": {"width": 1, "entries": []}}}, "'classes' has no rows"),
        ({"labels": {"classes": {"entries": ["a", None]}}}, "classes"),
        ({"labels": {"classes": {"entries": ["a", 1]}}}, "classes"),
        ({"labels": {"classes": {"width": 1, "entries": ["a", "b", "c"]}}}, "thresholds"),
    ],
)
def test_settings_that_are_refused(state, change, message):
    with pytest.raises(ModelFileError, match=message):
        estimator_from({**state[0], **change}, state[1])


def test_an_outlier_label_that_is_a_class(state):
    settings_, arrays = state
    with pytest.raises(ModelFileError, match="outlier_label='a' is also a class"):
        estimator_from({**settings_, "parameters": {**settings_["parameters"], "outlier_label": "a"}}, arrays)


def test_parameters_missing_from_the_file_of_an_older_outlark(state):
    """Their default may have been another one."""
    settings_, arrays = state
    older = {name: value for name, value in settings_["parameters"].items() if name != "quantile"}
    with pytest.raises(
        ModelFileError, match=r"\['quantile'\] of .* written by an older version of outlark; train it again"
    ):
        estimator_from({**settings_, "parameters": older}, arrays)


def test_more_than_is_known_is_no_harm(state):
    settings_, arrays = state
    more = {**settings_, "more": 1, "values": {**settings_["values"], "more": 1}}
    same(
        estimator_from(settings_, arrays).thresholds_, estimator_from(more, {**arrays, "more": np.zeros(1)}).thresholds_
    )
