"""Fresh inputs with a fixed seed, and what longer runs found; see docs/fuzzing.md."""

import json
from contextlib import ExitStack, closing
from functools import cache

import numpy as np
import pytest
from fuzz.models import Models
from fuzz.requests import request
from fuzz.target import Finding, expect
from fuzz.targets import TARGETS, inputs, judge

from outlark import PKNN
from outlark.annotations import read_annotations
from outlark.commands.train.examples import spread_evenly
from outlark.data.synthetic import Note, concatenate
from outlark.errors import AnnotationError, InputError
from outlark.features.array import ArrayFrontEnd
from outlark.files.container import read, write
from outlark.model_file import save
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector

#: Fresh inputs of each target: with the files that they need, less than 20 s in all.
FRESH = {"audio": 300, "tables": 300, "models": 80, "requests": 200, "commands": 60}
# a warning of NumPy about numbers that are too large is no failure
pytestmark = pytest.mark.filterwarnings("default")


def outcome(target, data: bytes) -> str:
    kind, trace = judge(target, data)
    assert not trace, f"{data[:500]!r}\n{trace}"
    return kind


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """Targets by name, each made once."""
    with ExitStack() as opened:

        @cache
        def get(name: str):
            return opened.enter_context(closing(TARGETS[name](tmp_path_factory.mktemp(name))))

        yield get


@pytest.mark.parametrize("name", TARGETS)
def test_fresh_inputs(name, target):
    seeds = {outcome(target(name), data) for data in target(name).seeds()}
    found = {outcome(target(name), data) for data in inputs(target(name), 20261117, FRESH[name])}
    assert len(found - seeds) > 2, "changes of the inputs changed nothing"


def test_the_same_seed_gives_the_same_inputs(tmp_path):
    first, again, other = (list(inputs(TARGETS["tables"](tmp_path), seed, 50)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) > 40


def test_what_is_no_error_of_outlark_is_a_finding():
    class Broken:
        def run(self, data: bytes) -> str:
            expect(data != b"wrong", "wrong 17 times")
            return f"number {int(data)}"

    assert judge(Broken(), b"12") == ("number N", "")
    kind, trace = judge(Broken(), b"x")
    assert kind.startswith("ValueError in test_fuzzing.py:")
    assert "invalid literal" in trace
    assert judge(Broken(), b"wrong").kind == "Finding: wrong N times"
    with pytest.raises(Finding):
        expect(False, "no")


# ------------------------------------------------------------------ what was found


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": [0]}, "it holds a [0], not one of"),
        ({"kind": {}}, "it holds a {}, not one of"),
    ],
    ids=["kind that is a list", "kind that is an object"],
)
def test_a_model_file_with_another_header(changes, told, tmp_path):
    path = tmp_path / "changed.outlark"
    save(PKNN(random_state=0).fit([[0.0], [0.1], [1.0], [1.1]], ["a", "a", "b", "b"]), path)
    header, arrays = read(path)
    write(path, {**header, **changes}, arrays)
    said = Models(tmp_path).run(path.read_bytes())
    assert said.startswith("ModelFileError: ")
    assert told in said


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        # at such a rate, times that stand for whole samples change when they are rounded
        ("sample_rate", "244294967294255", "sample_rate=244294967294255 must be from 1 to 10000000"),
        ("channel", "1e300", "channel=1000000000000000052504760255204420248704 must be from 1 to 65535"),
    ],
)
def test_numbers_that_no_recorder_has(column, value, told, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"recording,start_s,end_s,label,{column}\na.wav,1.0,1.1,song,{value}\n")
    with pytest.raises(AnnotationError, match=f"line 2: {told}"):
        read_annotations(path)


@pytest.mark.parametrize("name", ["least_s", "sure_s", "bridge_s", "unknown_s"])
def test_durations_that_do_not_fit_into_frames(name):
    sound = np.random.default_rng(0).normal(size=(400, 2))
    detector = FrameDetector(ArrayFrontEnd(window_s=0.01), PKNN(random_state=0), Rules(**{name: 2**64}))
    with pytest.raises(InputError, match=f"{name}=18446744073709551616 must be a number of seconds, 1e.08 at most"):
        detector.fit([sound[:200], sound[200:]], ["a", "b"], 8000).detect(sound, 8000)


@pytest.fixture
def page(target):
    target("requests").restore()
    return target("requests")


def test_exports_when_a_class_was_deleted(page):
    """Detections of the class stay, as unknown; they cannot be confirmed any more."""
    before = page.answer(request("GET", "/api/recordings/1/detections"))
    found = next(one for one in json.loads(before.body) if one["class_id"] is not None)
    assert page.answer(request("DELETE", f"/api/classes/{found['class_id']}")).status == 200
    for scope in ("corrected", "decided", "reviewed"):
        answer = page.answer(request("GET", f"/api/export?format=csv&scope={scope}&recording=1"))
        assert answer.status == 200
        assert (b"of a class that was deleted" in answer.body) == (scope != "reviewed")
    verdict = json.dumps({"detection_id": found["id"], "verdict": "confirm"})
    refused = page.answer(request("POST", "/api/reviews", verdict))
    assert (refused.status, b"there is no class" in refused.body) == (404, True)
    assert page.answer(request("POST", "/api/reviews", verdict.replace("confirm", "unknown"))).status == 201


@pytest.mark.parametrize("path", ["/api/recordings/1/import?name=a.csv", "/api/uploads/new.wav", "/api/classes"])
def test_a_request_that_is_cut_off(page, path):
    method = "PUT" if "uploads" in path else "POST"
    answer = page.answer(request(method, path, b'{"name": "song"}')[:-3])
    assert answer.status == 400
    assert not page.left_over()


@pytest.mark.parametrize("name", ["%00.csv", "a/..", "%C3%A9" * 150])
def test_a_table_whose_name_is_no_name_of_a_file(page, name):
    answer = page.answer(request("POST", f"/api/recordings/1/import?name={name}", b"0.5\t1.0\tsong\n"))
    assert answer.status == 400
    assert b"is not the name of a file; rename it" in answer.body


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("inspect table.csv --label-column 99", "there is no label column '99"),
        ("listen model.outlark --channel 99", "is not a channel; give mix, or a number from 1"),
    ],
)
def test_numbers_of_thousands_of_digits(target, line, told):
    """Python refuses to read them."""
    said = target("commands").run("\0".join((line + "9" * 5000).split()).encode())
    assert told in said


@pytest.mark.parametrize(
    "line", ["decide model.outlark none.csv", "detect model.outlark none.csv", "experiment table.csv --groups none/x"]
)
def test_a_table_that_does_not_exist(target, line):
    assert "(No such file or directory); check the path" in target("commands").run(line.replace(" ", "\0").encode())


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"gap_s": 1e6}, "would last 1e.06 s, more than 1800 s; give shorter gaps"),
        ({"snr_db": 1e308}, "snr_db=1e.308: expected decibels from -300 to 300"),
    ],
    ids=str,
)
def test_an_experiment_that_would_take_all_memory(how, told):
    with pytest.raises(InputError, match=told):
        concatenate([Note("a", np.ones(90)), Note("b", np.ones(50))], rng=np.random.default_rng(0), **how)


def test_more_examples_than_anyone_can_count():
    """It used to count up to their number."""
    assert spread_evenly(["a", "b", "a", "a"], 10**20) == {0, 1, 2, 3}


def test_a_file_where_a_folder_should_be(target):
    said = target("commands").run(b"data\0get\0synthetic\0--to\0b.flac")
    assert said.startswith("data error: Error: a.wav: File exists; choose another path")
