"""The check of the wheel can fail: what is missing, or should not be there, is named."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("check_dist", ROOT / "tools" / "check_dist.py")
check_dist = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_dist)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and a source distribution of this checkout."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture
def wheel(built, tmp_path):
    return Path(shutil.copy(next(built.glob("*.whl")), tmp_path))


def changed(wheel, *, without="", replace=("", ""), extra=""):
    """The wheel without a file, with a word replaced, or with a file more."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    if extra:
        held[extra] = b"x"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, blob in held.items():
            if not without or without not in name:
                archive.writestr(name, blob.replace(replace[0].encode(), replace[1].encode()) if replace[0] else blob)
    return wheel


def test_the_wheel_of_this_checkout_is_in_order(wheel):
    assert "py.typed, licence" in check_dist.check_contents(wheel)
    assert "3.11, 3.12, 3.13" in check_dist.check_versions(wheel)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"without": "py.typed"}, "only in src: .*outlark/py.typed"),
        ({"without": "page/main.js"}, "outlark/review/page/main.js"),
        ({"without": "licenses/LICENSE"}, "lacks the licence"),
        ({"extra": "outlark/tests/test_x.py"}, "outlark/tests/test_x.py"),
        ({"extra": "shared/recording.wav"}, "shared/recording.wav"),
    ],
    ids=str,
)
def test_what_is_missing_or_too_much_is_named(wheel, change, message):
    with pytest.raises(check_dist.WrongError, match=message):
        check_dist.check_contents(changed(wheel, **change))


def test_versions_that_disagree_are_named(wheel):
    with pytest.raises(check_dist.WrongError, match=r">=3.10, but the classifiers name \['3.11'"):
        check_dist.check_versions(changed(wheel, replace=("Requires-Python: >=3.11", "Requires-Python: >=3.10")))


def test_what_is_not_ready_is_refused_for_a_release_only(wheel, monkeypatch, tmp_path):
    monkeypatch.setattr(check_dist, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("## 0.1.0 (unreleased)\n")
    assert "placeholder" in check_dist.check_release(wheel, release=False)
    with pytest.raises(check_dist.WrongError, match=r"placeholder.*CHANGELOG"):
        check_dist.check_release(wheel, release=True)
    (tmp_path / "CHANGELOG.md").write_text("## 0.1.0 (2027-01-31)\n")
    at_home = changed(wheel, replace=("https://example.org/outlark", "https://git.example.edu/outlark"))
    assert check_dist.check_release(at_home, release=True) == "ready to be published"


def test_two_versions_in_the_folder_are_refused(built, tmp_path):
    for file in built.iterdir():
        shutil.copy(file, tmp_path)
    shutil.copy(next(built.glob("*.whl")), tmp_path / "outlark-0.0.9-py3-none-any.whl")
    with pytest.raises(SystemExit, match="found 2 wheels and 1 source"):
        check_dist.main(["--dist", str(tmp_path)])


def test_a_command_that_fails_is_reported_with_what_it_said():
    with pytest.raises(check_dist.WrongError, match=r"exit code 3: no such bird"):
        check_dist.run(sys.executable, "-c", "import sys; print('no such bird', file=sys.stderr); sys.exit(3)")
