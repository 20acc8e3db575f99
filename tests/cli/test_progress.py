"""How far a run is: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outlark.batch.run import State
from outlark.batch.sources import Failure
from outlark.cli.progress import clock, rate, words

SHOW = """
import sys, time
from outlark.batch.run import State
from outlark.cli import progress
progress.LINES_S = 0.05
with progress.shown(quiet=len(sys.argv) > 1) as watch:
    for done in range(4):
        watch(State(total=3, done=done, bytes_total=300.0, bytes_done=100.0 * done, seconds=60.0 * done))
        time.sleep(0.15)
"""


def shown(stderr, *args):
    return subprocess.run([sys.executable, "-c", SHOW, *args], stderr=stderr, check=True)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State(total=5), "0 of 5 files"),
        (State(total=5, done=5, bytes_total=9.0, bytes_done=9.0, seconds=50.0), "5 of 5 files, 5 × real time"),
        (State(total=5, done=1, failures=[Failure("a", "b")]), "1 of 5 files, 1 failed"),
        (
            State(total=2, bytes_total=100.0, bytes_done=1.0, seconds=3600.0),
            "0 of 2 files, 360 × real time, 0:16:30 left",
        ),
    ],
)
def test_words(state, expected):
    assert words(state, 10.0) == expected


def test_numbers():
    assert [clock(s) for s in (0.4, 59.6, 36000)] == ["0:00:00", "0:01:00", "10:00:00"]
    assert [rate(s, 2.0) for s in (1.0, 12.345, 123456.0)] == ["0.5", "6.17", "61728"]


def test_lines_where_there_is_no_terminal(tmp_path):
    with (tmp_path / "said").open("w") as file:
        shown(file)
    lines = (tmp_path / "said").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in lines] == ["1 of 3 files", "2 of 3 files", "3 of 3 files"]
    assert "× real time" in lines[0]
    assert "left" in lines[0]


def test_nothing_when_quiet(tmp_path):
    with (tmp_path / "said").open("w") as file:
        shown(file, "quiet")
    assert (tmp_path / "said").read_text() == ""


def test_a_bar_on_a_terminal():
    if not Path("/dev/ptmx").exists():
        pytest.skip("no terminals on this system")
    import pty

    ours, theirs = pty.openpty()
    shown(theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert b"2 of 3 files" in said
    assert b"\x1b[" in said
