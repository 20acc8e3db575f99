"""Twenty real songs of great tits with the notes marked, to try things on.

The songs are not part of outlark: they are taken from the wheel of pykanto on PyPI, once, and kept. The labels are.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from outlark.errors import InputError
from outlark.experiment.great_tits_files import (
    FROM_WHEEL,
    PROJECT,
    SONGS,
    VERSION,
    WHEEL,
    WHEEL_SHA256,
    files_of_wheel,
    own_files,
    sha256_of,
)
from outlark.files.aside import written_aside
from outlark.files.places import cache_folder

NAME = "great-tits"
PAGE = f"https://pypi.org/project/{PROJECT}/{VERSION}/#files"
#: A file that was changed is not lost when it is replaced: it gets this behind its name.
OLD = ".old"


def get(
    folder: str | PathLike[str] | None = None,
    *,
    wheel: str | PathLike[str] | None = None,
    watch: Callable[[str], None] | None = None,
) -> Path:
    """The folder with the songs, their tables and `groups.csv`; made, or mended, if need be.

    What is there and as it should be is left alone, and then no network is needed. A file of ours that was changed is
    replaced, and kept with `.old` behind its name; all other files in the folder are left alone.

    Parameters
    ----------
    folder : path, optional
        One that does not exist, is empty, or holds the songs already. Without it: `usual_folder()`.
    wheel : path, optional
        The wheel of pykanto, if it is at hand; else pip fetches it (8 MB), and it is kept in `cache_folder()`.
    watch : function of a str, optional
        Is told what is being done.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If the wheel cannot be fetched or is another one, or the folder holds other things. Nothing is changed then.
    """
    tell = watch or (lambda text: None)
    target = usual_folder() if folder is None else Path(folder)
    wrong = missing_or_changed(target)
    if not wrong:
        return target
    _check_place(target)
    content = own_files()
    if not FROM_WHEEL.keys().isdisjoint(wrong):
        content |= files_of_wheel(_checked(Path(wheel)) if wheel is not None else _kept_wheel(tell))
    tell(f"writing {len(wrong)} files to {target}")
    if target.is_dir() and any(target.iterdir()):
        # looked at again: another process may have been at work meanwhile
        _mend(target, {name: content[name] for name in missing_or_changed(target) if name in content})
    else:
        _lay_down(target, content)
    return target


def usual_folder() -> Path:
    """Where the songs are if no other folder was chosen."""
    return cache_folder() / NAME


def missing_or_changed(folder: Path) -> list[str]:
    """Names of the files that are not there, or not as they should be."""
    expected = FROM_WHEEL | {name: sha256_of(content) for name, content in own_files().items()}
    return [name for name, sha256 in expected.items() if _sha256_in(folder / name) != sha256]


def _sha256_in(path: Path) -> str | None:
    return sha256_of(path.read_bytes()) if path.is_file() else None


# ---------------------------------------------------------------------- the wheel


def _checked(wheel: Path) -> Path:
    found = _sha256_in(wheel)
    if found is None:
        raise InputError(f"{wheel}: there is no such file; give the wheel {WHEEL}, which is at {PAGE}")
    if found != WHEEL_SHA256:
        raise InputError(
            f"{wheel}: this is not the {WHEEL} that is expected: its SHA-256 is {found}, not {WHEEL_SHA256}; "
            f"get it again from {PAGE}"
        )
    return wheel


def _kept_wheel(tell: Callable[[str], None]) -> Path:
    """The wheel in the cache, fetched if it is not there or damaged."""
    kept = cache_folder() / WHEEL
    if _sha256_in(kept) == WHEEL_SHA256:
        return kept
    if find_spec("pip") is None:
        raise InputError(
            f"the songs come with {PROJECT} {VERSION}, and {sys.executable} has no pip to fetch it; install pip with "
            f"'{sys.executable} -m ensurepip', or get the wheel from {PAGE} and give it with --wheel FILE"
        )
    tell(f"fetching {PROJECT} {VERSION}, 8 MB")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=kept.parent, prefix=".outlark-") as aside:
        os.replace(_checked(_fetched(Path(aside))), kept)
    return kept


def _fetched(folder: Path) -> Path:
    """The wheel as pip brings it, in a folder of its own."""
    what = ["download", "--no-deps", "--only-binary=:all:", "--dest", ".", f"{PROJECT}=={VERSION}"]
    how = ["--no-input", "--disable-pip-version-check"]
    # in that folder, because Python would take modules from the one that the user is in
    done = subprocess.run(
        [sys.executable, "-m", "pip", *how, *what], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL
    )
    wheel = folder / WHEEL
    if done.returncode or not wheel.is_file():
        said = (done.stderr.strip() or done.stdout.strip() or b"nothing").decode(errors="replace").splitlines()[-1]
        raise InputError(
            f"{PROJECT} {VERSION}, which the songs come with, could not be fetched; pip said: {said.strip()!r}; "
            f"connect to the internet once and try again, or get the wheel from {PAGE} and give it with --wheel FILE"
        )
    return wheel


# --------------------------------------------------------------------- the folder


def _check_place(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give a folder that does not exist yet")
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in SONGS):
        raise InputError(f"{folder} holds other things and no songs; give a folder that does not exist yet")


def _lay_down(folder: Path, content: Mapping[str, bytes]) -> None:
    """All files at once, in a folder that is new or empty."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(mkdtemp(dir=folder.parent, prefix=".outlark-"))
    try:
        for name, data in content.items():
            (aside / name).write_bytes(data)
        aside.chmod(0o777 & ~_umask())
        if folder.is_dir():
            folder.rmdir()
        aside.rename(folder)
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        # another process may have been faster
        if not isinstance(error, OSError) or missing_or_changed(folder):
            raise


def _umask() -> int:
    """The rights that new files do not get; mkdtemp gives a folder to its owner alone."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _mend(folder: Path, content: Mapping[str, bytes]) -> None:
    """Write these files; what is there in place of one is kept beside it."""
    for name, data in content.items():
        path = folder / name
        with written_aside(path) as aside:
            aside.write_bytes(data)
            if path.is_file():
                shutil.copyfile(path, folder / f"{name}{OLD}")
