"""A damaged project file is told in one message, and there is a copy to return to."""

import os
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlark.cli.main import main
from outlark.errors import InputError
from outlark.review.opening import open_project
from outlark.review.store import BACKUP_NAME
from tests.review.conftest import limited, project_of
from tests.review.test_identity import KEPT, looked_at, season

PAGE = 4096


def damage(path: Path, first: int = 1) -> None:
    """Overwrite all pages from this one on, as a bad disk or an interrupted copy does."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    size = path.stat().st_size
    assert size > (first + 1) * PAGE
    with path.open("r+b") as file:
        file.seek(first * PAGE)
        file.write(b"\xa5" * (size - first * PAGE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A labelled season that was opened twice, so that there is a copy with its labels."""
    folder = season(tmp_path / "season")
    assert looked_at([folder]) == KEPT
    return folder


def project(folder: Path) -> Path:
    return folder / "outlark-review" / "project.sqlite"


@pytest.mark.parametrize("how", ["pages", "header", "cut"])
def test_a_damaged_project_file_is_one_message(folder, how):
    path = project(folder)
    if how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        damage(path, 0 if how == "header" else 1)
    before = path.read_bytes()
    done = CliRunner().invoke(main, ["review", str(folder), "--no-browser"])
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.output
    for word in (str(path), "damaged", "back-up copy"):
        assert word in done.stderr
    assert path.read_bytes() == before, "nothing more is lost"


def test_the_copy_brings_back_what_was_there(folder, tmp_path):
    """As the message says, even if what SQLite had left beside the damaged file stays."""
    path = project(folder)
    damage(path)
    with pytest.raises(InputError, match="damaged"):
        open_project([folder])
    path.rename(tmp_path / "damaged.sqlite")
    path.with_name(path.name + "-wal").write_bytes(os.urandom(9000))
    opened = open_project([folder])
    assert [p.where for p in opened.problems] == [path.name]
    opened.project.close()
    assert looked_at([folder]) == KEPT


def test_the_copy_is_of_the_last_good_opening(folder):
    """Also if it has not been closed; and a project that is damaged leaves it alone."""
    path, copy = project(folder), project(folder).with_name(BACKUP_NAME)
    with sqlite3.connect(copy) as db:
        assert db.execute("SELECT count(*) FROM annotation").fetchone() == (3,)
    db.close()
    damage(path)
    before = copy.read_bytes()
    with pytest.raises(InputError):
        open_project([folder])
    assert copy.read_bytes() == before
    assert not [one for one in path.parent.iterdir() if one.suffix == ".tmp"]


def test_damage_that_shows_later_is_told(folder):
    with project_of([folder]) as client:
        client.opened.project.store.close()
        damage(project(folder))
        for answer in (client.get("/api/project"), client.post("/api/classes", json={"name": "new"})):
            assert answer.status_code == 503
            assert "damaged" in answer.json()["detail"]


def test_a_copy_that_cannot_be_made_is_told_and_the_project_is_opened(folder, monkeypatch):
    connect = sqlite3.connect

    def full(path: Path, *args: object, **more: object) -> sqlite3.Connection:
        return (limited(connect, 1) if str(path).endswith(".tmp") else connect)(path, *args, **more)

    monkeypatch.setattr(sqlite3, "connect", full)
    opened = open_project([folder])
    (problem,) = opened.problems
    assert "back-up" in problem.message
    opened.project.close()
