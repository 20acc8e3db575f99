"""How far a run is: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlark.batch.report import State
from outlark.cli.terminal import Pace, clock, rate, words
from outlark.errors import Problem

SHOW = """
import sys
from outlark.batch.report import State
from outlark.cli import terminal
terminal.LINES_S = terminal.SURE_S = 0.0
with terminal.shown(quiet=len(sys.argv) > 1) as watch:
    for done in range(4):
        watch(State(total=3, done=done, bytes_total=300.0, bytes_done=100.0 * done, seconds=60.0 * done))
"""


def shown(stderr, *args):
    return subprocess.run([sys.executable, "-c", SHOW, *args], stderr=stderr, check=True)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State(total=5), "0 of 5 files"),
        (State(total=5, done=5, bytes_total=9.0, bytes_done=9.0, seconds=50.0), "5 of 5 files, 5 × real time"),
        (State(total=5, failures=[Problem("a", "b")]), "1 of 5 files, 1 failed"),
        (
            State(total=2, bytes_total=100.0, bytes_done=1.0, seconds=3600.0),
            "0 of 2 files, 360 × real time",
        ),
        (State(total=1), "0 of 1 file"),
    ],
)
def test_words(state, expected):
    assert words(state, 10.0) == expected
    assert words(state, 10.0, 990.0) == f"{expected}, 0:16:30 left"


def under_way(done):
    return State(total=2, bytes_total=1000.0, bytes_done=done)


def test_the_start_of_a_run_says_nothing_about_the_time_left():
    """Loading the model takes as long as a thousand seconds of sound: the first estimate was absurd."""
    pace = Pace()
    assert pace.left_s(under_way(0.0), 0.0) is None
    assert pace.left_s(under_way(1.0), 10.0) is None  # was told as 2 h 46 min
    assert pace.left_s(under_way(11.0), 10.1) is None
    assert pace.left_s(under_way(601.0), 16.0) == pytest.approx(399.0 / 100.0)
    assert pace.left_s(under_way(1000.0), 20.0) is None


@given(st.floats(0.1, 100.0), st.floats(0.0, 1000.0), st.integers(5, 40))
def test_an_even_pace_gives_the_true_time_left(each_s, loading_s, n):
    pace = Pace()
    for i in range(1, n):
        left_s = pace.left_s(State(total=1, bytes_total=float(n), bytes_done=float(i)), loading_s + i * each_s)
        assert left_s is None or left_s == pytest.approx((n - i) * each_s, rel=1e-6)


def test_numbers():
    assert [clock(s) for s in (0.4, 59.6, 36000)] == ["0:00:00", "0:01:00", "10:00:00"]
    assert [rate(s, 2.0) for s in (1.0, 12.345, 123456.0)] == ["0.5", "6.17", "61728"]


def test_lines_where_there_is_no_terminal(tmp_path):
    with (tmp_path / "said").open("w") as file:
        shown(file)
    lines = (tmp_path / "said").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in lines] == [f"{done} of 3 files" for done in range(4)]
    assert "× real time" in lines[1]
    assert "left" in lines[2]


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
    assert b"3 of 3 files" in said
    assert b"\x1b[" in said
