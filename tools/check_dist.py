"""Builds the wheel and the source distribution, and tries each as a user who installs it.

    python tools/check_dist.py                                  # make dist; the two files are left in dist/
    python3.13 tools/check_dist.py --dist dist                  # files that were built before, with another Python

Each is installed into an empty environment in a temporary folder; there the commands that `outlark data get synthetic`
suggests are run, the code of the README, and the review page. Needs nothing but Python and an index of packages.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What a wheel may hold of the package, by suffix.
SUFFIXES = {".py", ".typed", ".html", ".css", ".js", ".svg", ".md", ".txt"}
#: Megabytes that `pip install outlark` may download.
LARGEST_MB = 120
#: The least event F of any class in the synthetic recordings.
LEAST_F = 0.9
#: Repository URL of a checkout that has no public home yet.
PLACEHOLDER = "https://example.org/"
README_CODE = r"""
import importlib.metadata, re
text = importlib.metadata.metadata("outlark").get_payload()
code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
exec(code)
assert model.predict(X[[0, 50, 120]]).tolist() == [0, 1, -1], model.predict(X[[0, 50, 120]])
"""


class WrongError(Exception):
    """Something that a user must not find in what is installed."""


def run(*command: object, cwd: Path | None = None) -> str:
    """Run a command without what this checkout sets; its stdout."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise WrongError(f"{shlex.join(map(str, command))[:300]}: exit code {done.returncode}: {said[-2000:]}")
    return done.stdout


class Environment:
    """An empty virtual environment of this Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        run(sys.executable, "-m", "venv", folder)
        self._bin = folder / ("Scripts" if os.name == "nt" else "bin")

    def program(self, name: str) -> Path:
        """A program of the environment."""
        return self._bin / (f"{name}.exe" if os.name == "nt" else name)

    def pip(self, *args: object) -> str:
        """Run pip."""
        return run(self.program("python"), "-m", "pip", "--disable-pip-version-check", "--quiet", *args)


def build(to: Path, temporary: Path) -> None:
    """The wheel, from the source distribution, and that itself."""
    tools = Environment(temporary / "build")
    tools.pip("install", "build")
    for old in (*to.glob("outlark-*.whl"), *to.glob("outlark-*.tar.gz")):
        old.unlink()
    run(tools.program("python"), "-m", "build", "--outdir", to, ROOT)


def check_description(files: Sequence[Path], temporary: Path) -> str:
    """What a package index would refuse."""
    tools = Environment(temporary / "twine")
    tools.pip("install", "twine")
    run(tools.program("python"), "-m", "twine", "check", "--strict", *files)
    return "twine check --strict: passed"


def check_contents(wheel: Path) -> str:
    """The package as it is in src, the licence, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
    about = {name for name in inside if ".dist-info/" in name}
    package = inside - about
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if package != source:
        raise WrongError(f"{wheel.name}: only in the wheel or only in src: {sorted(package ^ source)}")
    strange = [name for name in package if Path(name).suffix not in SUFFIXES or "test" in Path(name).parts[1]]
    if strange:
        raise WrongError(f"{wheel.name} holds {strange}, which nobody needs to use outlark")
    for needed in ("outlark/py.typed", "outlark/review/page/index.html"):
        if needed not in package:
            raise WrongError(f"{wheel.name} lacks {needed}")
    if not any(name.endswith("licenses/LICENSE") for name in about):
        raise WrongError(f"{wheel.name} lacks the licence")
    page = [name for name in package if name.startswith("outlark/review/page/")]
    size = wheel.stat().st_size / 1e6
    return f"{len(package)} files ({len(page)} of the review page), py.typed, licence; {size:.2f} MB"


def check_versions(wheel: Path) -> str:
    """The versions of Python that are declared: the classifiers begin where Requires-Python does."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    (least,) = re.findall(r"^Requires-Python: >=([\d.]+)$", text, flags=re.MULTILINE)
    named = re.findall(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", text, flags=re.MULTILINE)
    if not named or named[0] != least:
        raise WrongError(f"Requires-Python is >={least}, but the classifiers name {named}")
    return f"requires Python >={least}; classifiers name {', '.join(named)}"


def check_release(wheel: Path, release: bool) -> str:
    """What has to be set by hand before files are published: the repository, and the section of the changelog."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    version = re.search(r"^Version: (\S+)$", text, flags=re.MULTILINE)
    assert version is not None
    missing = []
    if re.search(rf"^Project-URL: Repository, {re.escape(PLACEHOLDER)}", text, flags=re.MULTILINE):
        missing.append(f"the repository URL of pyproject.toml is the placeholder {PLACEHOLDER}")
    dated = rf"^## {re.escape(version[1])} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(dated, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE):
        missing.append(f"CHANGELOG.md has no section '## {version[1]} (YEAR-MONTH-DAY)'")
    if missing and release:
        raise WrongError(f"not ready to be published: {'; '.join(missing)}")
    return f"not ready to be published: {'; '.join(missing)}" if missing else "ready to be published"


def check_installed(file: Path, temporary: Path) -> str:
    """Install one file where nothing else is, and use it."""
    place = Environment(temporary / file.name)
    work = temporary / f"{file.name} in use"
    work.mkdir()
    place.pip("install", file)
    version = run(place.program("outlark"), "--version", cwd=work).split()[-1]
    if f"-{version}" not in file.name:
        raise WrongError(f"{file.name} calls itself version {version}")
    if "EXIT STATUS" not in run(place.program("outlark"), "help", "detect", cwd=work):
        raise WrongError(f"{file.name}: 'outlark help detect' is not a whole page")
    got = run(place.program("outlark"), "data", "get", "synthetic", "--to", work / "recordings", "--json", cwd=work)
    for line in json.loads(got)["next"]:
        program, *args = shlex.split(line)
        said = run(place.program(program), *args, "--json", "--quiet", cwd=work)
    by_class = json.loads(said)["measures"]["event_f_iou_0.5"]
    if min(by_class.values()) < LEAST_F:
        raise WrongError(f"{file.name}: event F of the synthetic recordings: {by_class}; expected {LEAST_F} or more")
    run(place.program("python"), "-c", README_CODE, cwd=work)
    place.pip("install", f"{file}[review]")
    n_page = check_review(place, work)
    worst = min(by_class.values())
    return f"version {version}; train, detect, evaluate: event F ≥ {worst:.2f}; README code; {n_page} files of the page"


def check_review(place: Environment, work: Path) -> int:
    """Start the review page, ask for each of its files and stop it; the number of files."""
    where = run(place.program("python"), "-c", "import outlark.review; print(*outlark.review.__path__)", cwd=work)
    if not Path(where.strip()).is_relative_to(place.folder):
        raise WrongError(f"outlark.review is that of {where.strip()}, not that of {place.folder}")
    names = sorted(path.name for path in Path(where.strip(), "page").iterdir())
    command = [str(place.program("outlark")), "review", str(work / "recordings"), "--no-browser", "--json"]
    with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            for name in ("", *names):
                with urllib.request.urlopen(json.loads(line)["url"] + name, timeout=60) as answer:
                    if not answer.read():
                        raise WrongError(f"the review page serves nothing for {name!r}")
        finally:
            server.send_signal(signal.SIGINT)
            said = server.communicate(timeout=60)[1]
        if server.returncode not in (0, 130) or "Traceback" in said:
            raise WrongError(f"the review page ended with exit code {server.returncode}: {said}")
    return len(names)


def check_download(wheel: Path, temporary: Path) -> str:
    """How much `pip install outlark` downloads where nothing is installed, and what of it is large."""
    folder = temporary / "download"
    Environment(temporary / "pip").pip("download", "--dest", folder, wheel)
    sizes = {path.name.split("-")[0]: path.stat().st_size / 1e6 for path in folder.iterdir()}
    total = sum(sizes.values())
    large = ", ".join(f"{name} {mb:.1f}" for name, mb in sorted(sizes.items(), key=lambda item: -item[1])[:6])
    told = f"{total:.1f} MB in {len(sizes)} files, the largest: {large} MB"
    if total > LARGEST_MB:
        raise WrongError(f"pip install downloads {told}; expected {LARGEST_MB} MB at most")
    return told


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, help="folder with files that were built before; default: build them")
    parser.add_argument("--release", action="store_true", help="refuse files that are not ready to be published")
    given = parser.parse_args(args)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)  # not inherited, as in tests/conftest.py: the server is to end
    to = (given.dist or ROOT / "dist").resolve()
    with tempfile.TemporaryDirectory(prefix="outlark-dist-") as folder:
        temporary = Path(folder)
        try:
            if given.dist is None:
                build(to, temporary)
            wheels, sources = sorted(to.glob("outlark-*.whl")), sorted(to.glob("outlark-*.tar.gz"))
            if len(wheels) != 1 or len(sources) != 1:
                raise WrongError(
                    f"{to}: found {len(wheels)} wheels and {len(sources)} source archives; expected one of each"
                )
            (wheel,), (source,) = wheels, sources
            print(f"Python {sys.version.split()[0]}, {wheel.name}, {source.name}")
            for what, told in (
                ("description", lambda: check_description([wheel, source], temporary)),
                ("in the wheel", lambda: check_contents(wheel)),
                ("versions", lambda: check_versions(wheel)),
                ("release", lambda: check_release(wheel, given.release)),
                ("download", lambda: check_download(wheel, temporary)),
                ("wheel in use", lambda: check_installed(wheel, temporary)),
                ("source in use", lambda: check_installed(source, temporary)),
            ):
                print(f"{what}: {told()}", flush=True)
        except WrongError as error:
            raise SystemExit(f"Error: {error}") from None


if __name__ == "__main__":
    main()
