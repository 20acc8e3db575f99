"""The journal: every line counts or is done again."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.batch.journal import LINE_DONE, NEEDED, Journal

WHOLE = {"state": "done", **dict.fromkeys(NEEDED[LINE_DONE], "x")}


def entry(name, **more):
    return {"recording": name, **WHOLE, **more}


@pytest.fixture
def path(tmp_path):
    (tmp_path / ".outlark").mkdir()
    return tmp_path / ".outlark/journal.jsonl"


def test_the_last_line_about_a_recording_counts(path):
    journal = Journal(path.parents[1])
    journal.add({"recording": "a", "state": "failed", "message": "empty"})
    journal.add(entry("b"))
    journal.add(entry("a"))
    assert Journal(path.parents[1]).entries == journal.entries == {"a": entry("a"), "b": entry("b")}


def test_names_that_are_no_unicode_come_back(path):
    Journal(path.parents[1]).add(entry("caf\udce9\n.wav"))
    assert list(Journal(path.parents[1]).entries) == ["caf\udce9\n.wav"]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=6), st.data())
def test_wherever_the_file_is_cut_the_whole_lines_count(tmp_path_factory, names, data):
    path = tmp_path_factory.mktemp("journal") / ".outlark/journal.jsonl"
    journal = Journal(path.parents[1])
    for name in names:
        journal.add(entry(name))
    blob = path.read_bytes()
    cut = data.draw(st.integers(0, len(blob)))
    path.write_bytes(blob[:cut])
    whole = blob[: cut + (blob[cut : cut + 1] == b"\n")].split(b"\n")[:-1]  # what ends a line may be lost
    expected = {json.loads(line)["recording"]: json.loads(line) for line in whole}
    torn = Journal(path.parents[1])
    assert torn.entries == expected
    torn.add(entry("new"))
    assert Journal(path.parents[1]).entries == {**expected, "new": entry("new")}


def test_a_torn_line_longer_than_what_is_read_at_once(path):
    Journal(path.parents[1]).add(entry("a"))
    with path.open("ab") as file:
        file.write(b'{"recording": "' + b"x" * 200_000)
    Journal(path.parents[1]).add(entry("b"))
    assert list(Journal(path.parents[1]).entries) == ["a", "b"]
    assert path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    "line", ["[]", "{}", "null", '{"recording": 1}', "\x00\xff", '{"recording": "a", "state": "done"}', ""]
)
def test_lines_that_say_nothing_count_for_nothing(path, line):
    path.write_text(line + "\n", encoding="latin-1")
    journal = Journal(path.parents[1])
    assert journal.entries == {}
    journal.add(entry("b"))
    assert list(Journal(path.parents[1]).entries) == ["b"]


def test_a_full_disk_is_an_error_and_spoils_nothing():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    journal = Journal.__new__(Journal)
    journal.path, journal.entries, journal.parts = full, {}, {}
    with pytest.raises(OSError, match="No space left on device"):
        journal.add(entry("a"))
    assert journal.entries == {}


def test_a_million_lines_share_what_is_the_same(path):
    for name in "abc":
        Journal(path.parents[1]).add(entry(name, identity={"version": "1"}))
    a, b, c = (found["identity"] for found in Journal(path.parents[1]).entries.values())
    assert a is b is c


def test_cleared(path):
    journal = Journal(path.parents[1])
    journal.add(entry("a"))
    journal.clear()
    assert journal.entries == Journal(path.parents[1]).entries == {}


def test_a_line_that_says_two_things_under_one_name_counts_for_nothing(path):
    Journal(path.parents[1]).add(entry("a", message="x"))
    line = path.read_bytes()
    path.write_bytes(line + line.replace(b'"message": "x"', b'"message": "y", "message": "z"'))
    assert Journal(path.parents[1]).entries["a"]["message"] == "x"
