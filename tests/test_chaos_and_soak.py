"""The trials of benchmarks/chaos.py and benchmarks/soak.py run, on little sound, and see what is wrong."""

import shutil
import sqlite3
import sys
from collections import Counter

import chaos
import chaos_ground
import chaos_review
import pytest
import soak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals, /proc and disks of Linux")


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return chaos_ground.Ground(tmp_path_factory.mktemp("chaos"), n_files=4, seconds=4.0, seed=0)


@pytest.fixture
def copy(ground, tmp_path):
    """The results of the undisturbed run, to be damaged."""
    for path in (path for path in ground.serial.rglob("*") if path.is_file()):
        to = tmp_path / "out" / path.relative_to(ground.serial)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    return tmp_path / "out"


def test_the_same_is_identical(ground, copy):
    result = ground.compared("x", "nothing", copy)
    assert result.good
    assert (result.doubled, result.lost) == (0, 0)
    assert result.expected == result.found > 10


def test_lost_and_doubled_rows_are_counted(ground, copy):
    head, first, second, *rest = (copy / "combined.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (copy / "combined.csv").write_text("".join([head, first, first, *rest]), encoding="utf-8")
    assert first != second
    result = ground.compared("x", "damage", copy)
    assert not result.good
    assert (result.doubled, result.lost) == (1, 1)
    assert result.verdict == "DIFFERENT: 1 files, such as combined.csv"


def test_a_table_that_is_missing_is_seen(ground, copy):
    next(copy.rglob("*.selections.txt")).unlink()
    assert ground.compared("x", "damage", copy).verdict.startswith("DIFFERENT: 1 files, such as site")


def test_a_run_that_fails_is_told(ground, tmp_path):
    def trial():
        yield ground.finished(ground.detect(tmp_path / "out", recordings=tmp_path / "nowhere"))

    (result,) = chaos.tried("x", trial)
    assert not result.good
    assert "exit code 1" in result.verdict


def test_trials_print_their_table(capsys):
    chaos.main(["--only", "times", "--files", "4", "--seconds", "4"])
    head, _, printed = capsys.readouterr().out.splitlines()
    assert head == f"| {' | '.join(chaos.HEADER)} |"
    assert printed.startswith("| times of files jump | killed; ")
    assert printed.endswith("| 0 | 0 | identical |")


def test_every_trial_has_its_name(ground):
    parser_defaults = type("Given", (), {"kills": 1, "hours": 1.0, "part_length": 1.0})
    assert tuple(chaos.trials(ground, parser_defaults)) == chaos.RUNS


@pytest.mark.parametrize(
    ("kept", "doubled", "lost"),
    [("ab", 0, 0), ("a", 0, 1), ("abb", 1, 0), ("abc", 1, 0), ("ac", 1, 1)],
)
def test_verdicts_that_are_lost_doubled_or_nobodys_are_counted(kept, doubled, lost):
    result = chaos_review.compared("x", "damage", "ab", Counter(kept))
    assert (result.expected, result.found, result.doubled, result.lost) == (2, len(kept), doubled, lost)
    assert result.good == (kept == "ab")


def test_a_verdict_that_a_killed_server_lost_is_seen(monkeypatch, capsys):
    before = chaos_review.Desk.start

    def forgetful(desk):
        if desk.port:  # it has been killed: what it stored last is gone
            with sqlite3.connect(desk.project) as db:
                db.execute("DELETE FROM review WHERE id = (SELECT MAX(id) FROM review)")
            db.close()
        return before(desk)

    monkeypatch.setattr(chaos_review.Desk, "start", forgetful)
    if not any(map(shutil.which, chaos_review.BROWSERS)):
        pytest.skip("there is no Chromium")
    with pytest.raises(SystemExit):
        chaos.main(["--only", "review-killed"])
    assert "| 10 | 9 | 0 | 1 | WRONG" in capsys.readouterr().out


def test_the_soak_finds_the_notes_and_tells_memory_and_delay(tmp_path):
    model = soak.save_model(tmp_path / "model.outlark")
    first, second = soak.hours(model, 2, 120.0, 1.0)
    assert second.found > 0.8 * second.played > 5
    assert second.memory_mb > 50
    assert 2.5 < second.delay_s.min() < second.delay_s.max() < 5.0 + 1.0  # as documented, and a block of a second
    assert first.busy < second.busy


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([200.0 + 0.1 * (i % 2) for i in range(24)], "flat"),
        ([200.0 + i for i in range(24)], "NOT FLAT"),
        ([200.0, 260.0, 190.0, 240.0], "too few hours to say"),
    ],
)
def test_a_trend_is_seen(values, expected):
    assert soak.verdict(values).endswith(expected)
