"""The container: what goes in comes out, writing is all or nothing, and no file whatever does anything but fail."""

import ast
import hashlib
import io
import json
import os
import pickle
import random
import stat
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save, save_file

from outlark import MDDKM
from outlark.errors import InputError, ModelFileError
from outlark.files.container import pack, read, unpack, write
from outlark.model_file import load_estimator
from outlark.model_file import save as save_model
from tests.toy_notes import notes

SOURCE = Path(__file__).parents[2] / "src" / "outlark"
HEADER = {"model": {"kind": "toy", "quantile": 0.1}, "labels": ["a", "ü"]}
ARRAYS = {"X": np.arange(6.0).reshape(2, 3), "Y": np.ones((2, 3)), "yes": np.array([True, False]), "n": np.array(7)}


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "toy.outlark", HEADER, ARRAYS)
    return tmp_path / "toy.outlark"


def parts(blob):
    """The safetensors header and the bytes of the arrays."""
    (length,) = struct.unpack("<Q", blob[:8])
    return json.loads(blob[8 : 8 + length]), blob[8 + length :]


def joined(table, data):
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + data


def with_header(blob, change, sign=True):
    """The file with its JSON header changed, the digest made right again."""
    table, data = parts(blob)
    header = json.loads(table["__metadata__"]["outlark"])
    change(header)
    if sign:
        header.pop("sha256")
        sha = hashlib.sha256(json.dumps(header, sort_keys=True, separators=(",", ":")).encode())
        for name in sorted(name for name in table if name != "__metadata__"):
            start, end = table[name]["data_offsets"]
            sha.update(data[start:end])
        header["sha256"] = sha.hexdigest()
    table["__metadata__"]["outlark"] = json.dumps(header)
    return joined(table, data)


def refused(path, blob=None):
    """The message with which the file is refused; it begins with the path."""
    if blob is not None:
        path.write_bytes(blob)
    with pytest.raises(ModelFileError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


# ---------------------------------------------------------------- there and back

DTYPES = st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "bool"]).map(np.dtype)
ANY_ORDER = st.tuples(DTYPES, st.sampled_from("<>=")).map(lambda pair: pair[0].newbyteorder(pair[1]))
ANY_ARRAY = hnp.arrays(ANY_ORDER, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OWN = ("format", "arrays", "sha256")


@settings(deadline=None, max_examples=40)
@given(
    header=st.dictionaries(st.text().filter(lambda key: key not in OWN), ANY_JSON, max_size=4),
    arrays=st.dictionaries(st.text(st.characters(max_codepoint=127), max_size=8), ANY_ARRAY, max_size=4),
    transposed=st.booleans(),
)
def test_what_goes_in_comes_out(header, arrays, transposed):
    given_arrays = {name: array.T if transposed else array for name, array in arrays.items()}
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/m", header, given_arrays)
        back, found = read(f"{folder}/m")
    assert json.dumps(back, sort_keys=True) == json.dumps(header, sort_keys=True)  # 1 is not True, 0.0 is not -0.0
    assert set(found) == set(arrays)
    for name, array in given_arrays.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()  # NaN included
        assert found[name].flags.writeable
        assert found[name].flags.c_contiguous


SAME_MODEL = """
import sys, numpy as np
from outlark.files.container import write
names = ["d", "b", "a", "c"] if sys.argv[2] == "1" else ["a", "b", "c", "d"]
write(sys.argv[1], {n: {m: 0.1 for m in names} for n in names}, {n: np.full(3, ord(n), "f4") for n in names})
"""


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", SAME_MODEL, tmp_path / seed, seed], check=True, env=environment)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_the_header_says_what_the_file_is(path):
    table, _ = parts(path.read_bytes())
    assert list(table["__metadata__"]) == ["outlark"]
    header = json.loads(table["__metadata__"]["outlark"])
    assert header["format"] == {"name": "outlark-model", "major": 1, "minor": 0}
    assert header["arrays"]["X"] == {"dtype": "float64", "shape": [2, 3]}
    assert header["model"] == HEADER["model"]


# ------------------------------------------------------------------ all or nothing


def test_folders_that_are_not_there_and_names_that_are_taken(tmp_path):
    with pytest.raises(ModelFileError, match=r"m: the folder .*gone does not exist; create it"):
        write(tmp_path / "gone" / "m", {}, {})
    with pytest.raises(
        ModelFileError, match=r"cannot be written \(it is a folder, not a file\); give the name of a file"
    ):
        write(tmp_path, {}, {})
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFileError, match="Not a directory"):
        write(tmp_path / "file" / "m", {}, {})
    with pytest.raises(ModelFileError, match=r"cannot be written \(File name too long\)"):
        write(tmp_path / ("m" * 300), {}, {})
    with pytest.raises(ModelFileError, match="choose another name"):
        write(f"{tmp_path}/a\0b", {}, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a file"):
        write(tmp_path / "pipe", {}, {})
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert "not a file" in refused(tmp_path / "pipe")  # and does not wait for ever


NO_ROOM = """
import resource, sys, numpy as np
from outlark.errors import InputError, ModelFileError
from outlark.files.container import write
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write(sys.argv[1], {}, {"X": np.zeros(10_000)})
except ModelFileError as error:
    print(error)
"""


def test_a_write_that_fails_half_way_leaves_the_old_file(path):
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", NO_ROOM, path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{path}: cannot be written (File too large); give the name of a file")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_old_file_stands_until_the_new_one_is_safe(path, monkeypatch):
    before, seen = path.read_bytes(), []
    real = os.fsync

    def fsync(number):
        if stat.S_ISREG(os.fstat(number).st_mode):
            seen.append((path.read_bytes() == before, os.fstat(number).st_size))
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)
    write(path, {"new": 1}, ARRAYS)
    assert seen == [(True, path.stat().st_size)]
    assert read(path)[0] == {"new": 1}
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupt_leaves_nothing_behind(path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(path, {"new": 1}, ARRAYS)
    assert list(path.parent.iterdir()) == [path]
    assert read(path)[0] == HEADER


def test_rights_and_links_stay(path):
    path.chmod(0o640)
    link = path.parent / "link"
    link.symlink_to(path)
    write(link, {"new": 1}, {})
    assert link.is_symlink()
    assert read(path)[0] == {"new": 1}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    write(path.parent / "fresh", {}, {})
    (path.parent / "plain").touch()
    assert (path.parent / "fresh").stat().st_mode == (path.parent / "plain").stat().st_mode  # the umask


# ------------------------------------------------------- files that are not models


def test_what_is_no_file(tmp_path):
    assert "no such file" in refused(tmp_path / "gone")
    assert "is a folder" in refused(tmp_path)
    assert "Not a directory" in refused(Path(sys.executable) / "m")
    with pytest.raises(ModelFileError, match="cannot be read"):
        read("a\0b")


def zipped():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model", "x" * 1000)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "empty"),
        (b"\x00" * 100, "not a model file, or damaged or cut short: it begins with"),
        (
            b"RIFF" + b"\x24\x10\0\0" + b"WAVEfmt " * 9,
            "not a model file, but a recording (WAV); give a file that outlark saved",
        ),
        (b"fLaC" + b"\0\0\0\x22" * 9, "a recording (FLAC)"),
        (b"just some text that somebody wrote\n" * 9, "it begins with 'just som'"),
        (pickle.dumps({"a": list(range(100))}), "not a model file"),
        (zipped(), "not a model file"),
        (struct.pack("<Q", 2**60) + b"{}", "not a model file"),
        (struct.pack("<Q", 99) + b"{}", "cut short"),
        (joined(b"not json", b""), "not a model file"),
        (joined(b'{"a":' + b"[" * 100_000, b""), "not a model file"),
        (joined({"__metadata__": {"outlark": 3}}, b""), "not a model file"),
        (save({"weight": np.zeros(3)}), "another program"),
        (save({"weight": np.zeros(3)}, {"format": "pt"}), "another program"),
        (save({}, {"outlark": "{"}), "its header is not strict JSON"),
        (save({}, {"outlark": '{"a": 1, "a": 2}'}), "occurs twice"),
        (save({}, {"outlark": '{"a":' + "[" * 80 + "]" * 80 + "}"}), "levels deep"),
        (save({}, {"outlark": '{"format": {"name": "x"}, "a": Infinity}'}), "its header.a is inf"),
        (save({}, {"outlark": "[]"}), "not a JSON object"),
        (save({}, {"outlark": "{}"}), "its format is None"),
        (save({}, {"outlark": '{"format": {"name": "outlark-zoo", "major": 1}}'}), "outlark-zoo"),
        (save({}, {"outlark": '{"format": {"name": "outlark-model"}}'}), "its format is"),
    ],
    ids=range(22),
)
def test_files_of_other_kinds(tmp_path, blob, message):
    assert message in refused(tmp_path / "m", blob)


def test_a_large_file_of_another_program_is_not_read_in(tmp_path):
    save_file({"weight": np.zeros(3)}, tmp_path / "m")
    os.truncate(tmp_path / "m", 2**34)
    tracemalloc.start()
    refused(tmp_path / "m")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_newer_outlark_wrote_it(path):
    blob = path.read_bytes()
    newer = with_header(blob, lambda header: header["format"].update(major=2))
    message = "written by a newer outlark, file format 2; this one reads up to 1: pip install -U outlark"
    assert message in refused(path, newer)
    path.write_bytes(with_header(blob, lambda header: (header["format"].update(minor=9), header.update(more=1))))
    assert read(path)[0] == {**HEADER, "more": 1}


@pytest.mark.parametrize(
    ("change", "sign"),
    [
        (lambda header: header.pop("arrays"), True),
        (lambda header: header["arrays"].pop("X"), True),
        (lambda header: header["arrays"]["X"].update(shape=[3, 2]), True),
        (lambda header: header["arrays"]["X"].update(dtype="int64"), True),
        (lambda header: header.pop("sha256"), False),
        (lambda header: header.update(more=1), False),
        (lambda header: header["model"].update(quantile=0.2), False),
    ],
)
def test_header_and_arrays_must_match_the_digest(path, change, sign):
    blob = path.read_bytes()
    path.write_bytes(with_header(blob, lambda header: None))
    read(path)  # the way in which the others are made is right
    assert "digest" in refused(path, with_header(blob, change, sign))


def test_arrays_that_change_places(path):
    table, data = parts(path.read_bytes())
    table["X"], table["Y"] = table["Y"], table["X"]  # the same shape
    assert "digest" in refused(path, joined(table, data))


@pytest.fixture(scope="module")
def model_bytes():
    X, y, groups = notes(np.random.default_rng(5), [3, 3], n=4, d=2)
    with tempfile.TemporaryDirectory() as folder:
        save_model(MDDKM(metric="within").fit(X, np.array(["a", "b"])[y], groups), f"{folder}/m")
        return Path(f"{folder}/m").read_bytes(), X


def test_every_flipped_byte_is_found(model_bytes, tmp_path):
    blob, X = model_bytes
    path, rng = tmp_path / "m", random.Random(1)
    path.write_bytes(blob)
    expected = load_estimator(path).class_scores(X)
    header_end = 8 + struct.unpack("<Q", blob[:8])[0]
    places = [rng.randrange(len(blob)) for _ in range(80)] + [rng.randrange(header_end) for _ in range(80)]
    found = 0
    for place in [*range(8), *places]:
        path.write_bytes(blob[:place] + bytes([blob[place] ^ rng.randrange(1, 256)]) + blob[place + 1 :])
        try:
            np.testing.assert_array_equal(load_estimator(path).class_scores(X), expected)
        except ModelFileError as error:
            found += str(error).startswith(f"{path}: ")
    assert found >= len(places)  # what does no harm is rare


def test_every_cut_is_found(model_bytes, tmp_path):
    blob, _ = model_bytes
    rng = random.Random(2)
    for end in [*range(12), len(blob) - 1, *(rng.randrange(len(blob)) for _ in range(60))]:
        refused(tmp_path / "m", blob[:end])


# --------------------------------------------------------------- values of any kind

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.floats(width=32).map(np.float32)
    | st.integers(0, 2**64 - 1).map(np.uint64)
    | st.booleans().map(np.bool_)
)
TRIANGLES = st.sampled_from("CF").map(lambda order: np.array(np.tri(3) * 2.5, order=order))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=4)
        | st.dictionaries(st.integers(), inner, max_size=4)
        | hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
        | st.lists(st.text(st.characters(min_codepoint=1))).map(lambda words: np.array(words, dtype=object))
        | TRIANGLES
    ),
    max_leaves=8,
)


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.flags.c_contiguous) == (b.dtype, b.shape, b.flags.c_contiguous)
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif isinstance(a, dict):
        same(sorted(a.items(), key=str), sorted(b.items(), key=str))
    else:
        assert repr(a) == repr(b)


@settings(deadline=None, max_examples=60)
@given(VALUES)
def test_values_come_back_in_value_and_type(value):
    arrays = {}
    text = json.dumps(pack(value, "v", arrays), allow_nan=False, sort_keys=True)
    same(value, unpack(json.loads(text), "v", arrays))


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"tuple": 3},
        {"float": "1"},
        {"numpy": "object", "value": 1},
        {"array": "C"},
        {"labels": "abc", "object": False},
        {"kind": "os.system"},
    ],
)
def test_nodes_that_stand_for_nothing(node):
    with pytest.raises(ModelFileError, match=r"v is .*not a stored value"):
        unpack(node, "v", {})


def test_what_a_file_cannot_hold():
    for value in (object(), 1j, {1, 2}, np.array([1j]), lambda: 0):
        with pytest.raises(InputError, match="which a model file cannot hold"):
            pack(value, "v", {})


# --------------------------------------------------------------- nothing is run


#: These import what the code itself names, when it is needed, or read what is in this package or installed.
LAZY = {
    "__init__.py",
    "cli/main.py",
    "embeddings.py",
    "data/great_tits.py",
    "paper/experiment/report.py",
    "annotations/formats.py",
    "commands/listen.py",
    "annotations/files.py",
    "batch/cluster.py",
    "review/serving.py",
    "cli/help.py",
}


@pytest.mark.parametrize("source", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_that_runs_what_a_file_says(source):
    modules = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "importlib", "runpy", "code"}
    if source.relative_to(SOURCE).as_posix() in LAZY:
        modules.remove("importlib")
    if source.parent.name == "experiment" and source.name == "run.py":
        modules.remove("joblib")  # processes side by side; it loads no file
    if source.name == "engine.py" and source.parent.name == "batch":
        modules.remove("pickle")  # reads back what the same process has written, from a file without a name
    calls = {"eval", "exec", "compile", "__import__"}
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in modules
        elif isinstance(node, ast.Name):
            assert node.id not in calls
        elif isinstance(node, ast.keyword):
            assert node.arg != "allow_pickle" or ast.literal_eval(node.value) is False
