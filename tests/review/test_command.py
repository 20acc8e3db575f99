"""`outlark review` as people start it, and as it ends when it is killed."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from outlark.cli.main import main
from outlark.review.opening import open_project
from tests.recordings_on_disk import OUTLARK, environment

#: Seconds; a limit for what hangs, not for what is slow.
NEVER_S = 600


def started(*args: object, cache: Path) -> tuple[subprocess.Popen[str], dict]:
    """The program, once it serves, and what it says of itself."""
    command = [*OUTLARK, "review", *map(str, args), "--no-browser", "--json"]
    env = {**environment(), "OUTLARK_CACHE": str(cache)}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    return child, json.loads(child.stdout.readline())


def test_the_project_stays_where_it_is_when_recordings_come(tmp_path, demo_recordings):
    """It belongs to the folder that was asked for, not to where recordings happen to lie in it."""
    for name in ("2024", "2025"):
        (tmp_path / name).mkdir()
        shutil.copy(next(demo_recordings.glob("*.wav")), tmp_path / name / "a.wav")
        opened = open_project([str(tmp_path)])
        opened.project.close()
        assert opened.project.folder == tmp_path / "outlark-review"
        assert opened.title in (tmp_path.name, "2024/a.wav")
    assert opened.title == tmp_path.name


def test_what_was_answered_is_there_after_a_kill(tmp_path, demo_recordings):
    shutil.copy(next(demo_recordings.glob("*.wav")), tmp_path / "a.wav")
    names: list[str] = []
    for kill in range(2):
        child, said = started(tmp_path, cache=tmp_path / "cache")
        with httpx2.Client(base_url=said["url"], headers={"origin": said["url"].rstrip("/")}) as client:
            assert [c["name"] for c in client.get("/api/project").json()["classes"]] == names
            for n in range(kill + 2):
                assert client.post("/api/classes", json={"name": f"{kill} {n}"}).status_code == 201
                names.append(f"{kill} {n}")
            child.send_signal(signal.SIGKILL)
            child.communicate()
    assert said["project"] == str(tmp_path / "outlark-review")


def test_without_recordings_it_is_a_demonstration_and_ends_when_interrupted(tmp_path):
    child, said = started(cache=tmp_path)
    with httpx2.Client(base_url=said["url"]) as client:
        project = client.get("/api/project").json()
        assert project["title"] == "Demonstration"
        assert len(project["recordings"]) == 2
        assert "<title>outlark review</title>" in client.get("/").text
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=NEVER_S)
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere"], "nowhere"),
        (["--host", "0.0.0.0"], "every address"),
        (["--host", "203.0.113.9"], "cannot be served"),
        (["--model", "m.outlark", "."], "--model goes with the results"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_errors_are_one_message(tmp_path, demo_recordings, args, message, monkeypatch):
    shutil.copy(next(demo_recordings.glob("*.wav")), tmp_path / "a.wav")
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["review", *args, "--no-browser"])
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.startswith("Error: ")
