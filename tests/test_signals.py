"""Tests do not depend on how they were started: what they start can be interrupted, also where Ctrl-C is ignored."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
#: Whether Ctrl-C and the end of the terminal reach a program.
REACHES = "from signal import *; print(getsignal(SIGINT) is default_int_handler, getsignal(SIGHUP) is SIG_DFL)"
#: These tests, as "nohup make test &" starts them.
IGNORED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", sys.argv[1]])
"""


def test_a_child_can_be_interrupted():
    done = subprocess.run([sys.executable, "-c", REACHES], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def test_a_child_can_be_interrupted_where_the_tests_cannot():
    done = subprocess.run(
        [sys.executable, "-c", IGNORED, f"{__file__}::{test_a_child_can_be_interrupted.__name__}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
