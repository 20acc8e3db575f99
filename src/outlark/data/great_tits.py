"""Twenty songs of great tits with annotated notes, to try outlark on.

The songs are not part of outlark: they come from the wheel of pykanto on PyPI, downloaded once and cached. The
annotations are outlark's own.
"""

import csv
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from outlark.errors import InputError
from outlark.files.io import cache_folder, written_aside

NAME = "great-tits"
#: The wheel that contains the songs, on PyPI.
PROJECT, PYKANTO_VERSION = "pykanto", "0.1.8"
WHEEL = f"{PROJECT}-{PYKANTO_VERSION}-py3-none-any.whl"
WHEEL_SHA256 = "44b0df060e83087950fd5b6780bbc3bc13f3122abdadb1cb7f979e641adc3077"
PAGE = f"https://pypi.org/project/{PROJECT}/{PYKANTO_VERSION}/#files"
RECORDINGS, LICENSE = "pykanto/data/segmented/great_tit/WAV", f"{PROJECT}-{PYKANTO_VERSION}.dist-info/LICENSE"
#: All notes of all songs, as Raven shows them when the songs are opened in sequence, by name.
LABELS = "great_tits.Table.1.selections.txt"
TABLE_ENDING = ".Table.1.selections.txt"
START, END, OFFSET, FILE = "Begin Time (s)", "End Time (s)", "File Offset (s)", "Begin File"
#: Appended to the name of a changed file when `get` replaces it.
OLD = ".old"


def get(
    folder: str | PathLike[str] | None = None,
    *,
    wheel: str | PathLike[str] | None = None,
    watch: Callable[[str], None] = lambda text: None,
) -> Path:
    """The folder with the songs, their selection tables and `groups.csv`; created or completed as needed.

    A complete folder needs no network. A changed file is replaced and kept with `.old` appended to its name; other
    files in the folder are left alone. The folder, `usual_folder()` by default, does not exist, is empty, or holds the
    songs already. Without the `wheel` of pykanto, pip downloads it (8 MB), and it is cached. `watch` is called with a
    description of each step.
    """
    target = usual_folder() if folder is None else Path(folder)
    wrong = missing_or_changed(target)
    if not wrong:
        return target
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; give a folder that does not exist yet")
    if target.is_dir() and any(target.iterdir()) and not any((target / name).exists() for name in songs()):
        raise InputError(f"{target} contains other files and none of the songs; give a folder that does not exist yet")
    content = _own_files()
    if not set(wrong) <= content.keys():
        content |= _songs_of(_checked(Path(wheel)) if wheel is not None else _cached_wheel(watch))
    watch(f"writing {len(wrong)} files to {target}")
    target.mkdir(parents=True, exist_ok=True)
    for name in wrong:
        with written_aside(target / name) as aside:
            aside.write_bytes(content[name])
            if (target / name).is_file():
                shutil.copyfile(target / name, target / f"{name}{OLD}")
    return target


def usual_folder() -> Path:
    """Where the songs are unless another folder was chosen."""
    return cache_folder() / NAME


def missing_or_changed(folder: Path) -> list[str]:
    """Names of files that are missing, and of annotation files that were changed."""
    own = _own_files()
    return [
        name
        for name in [*songs(), "LICENSE", *own]
        if not (path := folder / name).is_file() or (name in own and path.read_bytes() != own[name])
    ]


def songs() -> list[str]:
    """The file names of the songs."""
    return list(dict.fromkeys(row[FILE] for row in labels()))


@cache
def labels() -> list[dict[str, str]]:
    """The rows of the selection table of all notes."""
    text = files("outlark.data").joinpath(LABELS).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def tables() -> dict[str, bytes]:
    """The selection table of each song, by file name; times are relative to the start of the song.

    >>> print(tables()["2021-B32-0415_05-15.Table.1.selections.txt"].decode().splitlines()[1].expandtabs(1))
    1 Spectrogram 1 1 0.3394 0.4545 2950 4350 2021-B32-0415_05-15.wav B32-a
    """
    return {Path(song).stem + TABLE_ENDING: _table([r for r in labels() if r[FILE] == song]) for song in songs()}


def _table(rows: list[dict[str, str]]) -> bytes:
    columns = [column for column in rows[0] if column != OFFSET]
    lines = ["\t".join(columns)]
    for number, row in enumerate(rows, start=1):
        start = Decimal(row[OFFSET])
        end = start + Decimal(row[END]) - Decimal(row[START])
        within = {**row, "Selection": str(number), START: str(start), END: str(end)}
        lines.append("\t".join(within[column] for column in columns))
    return "".join(f"{line}\n" for line in lines).encode()


def _own_files() -> dict[str, bytes]:
    """What outlark adds to the songs: a selection table for each, which bird sings, and a README."""
    groups = "".join(f"{song},{song.split('-')[1]}\n" for song in songs())
    readme = files("outlark.data").joinpath("great_tits.README.md").read_bytes()
    return {"groups.csv": f"recording,group\n{groups}".encode(), "README.md": readme, **tables()}


def _songs_of(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {"LICENSE": archive.read(LICENSE), **{name: archive.read(f"{RECORDINGS}/{name}") for name in songs()}}


def _checked(wheel: Path) -> Path:
    if not wheel.is_file():
        raise InputError(f"{wheel}: there is no such file; give the wheel {WHEEL}, available at {PAGE}")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise InputError(
            f"{wheel}: this is not the expected {WHEEL}: its SHA-256 is {found}, not {WHEEL_SHA256}; "
            f"download it again from {PAGE}"
        )
    return wheel


def _cached_wheel(watch: Callable[[str], None]) -> Path:
    """The wheel in the cache, downloaded if it is missing or damaged."""
    cached = cache_folder() / WHEEL
    if cached.is_file() and hashlib.sha256(cached.read_bytes()).hexdigest() == WHEEL_SHA256:
        return cached
    watch(f"downloading {PROJECT} {PYKANTO_VERSION}, 8 MB")
    cached.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cached.parent, prefix=".outlark-") as aside:
        os.replace(_checked(_downloaded(Path(aside))), cached)
    return cached


def _downloaded(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", ".", f"{PROJECT}=={PYKANTO_VERSION}"]
    # in that folder, because Python would import modules from the user's
    done = subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode or not (folder / WHEEL).is_file():
        said = (done.stderr.strip() or done.stdout.strip() or b"nothing").decode(errors="replace").splitlines()[-1]
        raise InputError(
            f"{PROJECT} {PYKANTO_VERSION}, which contains the songs, could not be downloaded; pip said: "
            f"{said.strip()!r}; connect to the internet, with pip installed, and try again, or download the wheel from "
            f"{PAGE} and give it with --wheel FILE"
        )
    return folder / WHEEL
