"""`outlark formats`: which tables can be read and written, what they look like, and whether a file is one of them."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import options, tables
from outlark.cli.main import UNREADABLE
from outlark.cli.say import answer, say
from outlark.errors import AnnotationError
from outlark.plain_text import number_of

if TYPE_CHECKING:
    from outlark.annotations import Format


@click.command()
@click.argument("names", nargs=-1, shell_complete=tables.complete_readable)
@click.option("--check", is_flag=True, help="NAMES are files: say what each is taken for, or what is wrong with it.")
@click.option(
    "--from",
    "format",
    metavar="NAME",
    callback=tables.readable_format,
    shell_complete=tables.complete_readable,
    help="With --check: format of the files. Without it: told from content and name.",
)
@click.option(
    "--label-column", metavar="NAME", help="With --check: the column of the labels, by name or number from 1."
)
@options.reporting
def command(
    names: tuple[str, ...], check: bool, format: str | None, label_column: str | None, quiet: bool, as_json: bool
) -> None:
    """List the formats of tables, or show those of the given NAMES with an example.

    With --check, NAMES are files: each is read, and what it was taken for is told, with its labels, or the error.
    """
    if check and not names:
        raise click.UsageError("--check needs files: outlark formats --check FILE…")
    if not check and (format or label_column):
        raise click.UsageError("--from and --label-column go with --check")
    if check:
        found = [_checked(name, format, label_column) for name in names]
        if as_json:
            answer({"files": found})
        else:
            _tell_checked(found, quiet)
        click.get_current_context().exit(UNREADABLE if any("error" in one for one in found) else 0)
    chosen = _chosen(names)
    if as_json:
        answer({"formats": [_content(one, with_example=bool(names)) for one in chosen]})
    elif names:
        for one in chosen:
            _show(_content(one, with_example=True))
    else:
        _list(chosen)


def _chosen(names: Sequence[str]) -> "list[Format]":
    from outlark.annotations import FORMATS

    for name in names:
        if name not in FORMATS:
            raise click.UsageError(f"{name!r} is no format; there are {', '.join(FORMATS)}. Is it a file? Add --check")
    return [FORMATS[name] for name in names or FORMATS]


def _content(format: "Format", with_example: bool) -> dict[str, Any]:
    from outlark.annotations.formats import is_ready
    from outlark.annotations.write import example

    told = {
        "name": format.name,
        "what": format.what,
        "ends_in": format.suffix,
        "reads": format.reads,
        "writes": format.writes,
        "ready": is_ready(format),
        "install": None if format.extra is None else f'pip install "outlark[{format.extra}]"',
    }
    return told | ({"example": example(format.name)} if with_example else {})


def _list(formats: "Sequence[Format]") -> None:
    from outlark.annotations.formats import is_ready

    rows = [["name", "reads", "writes", "ends in", "what", "needs"]]
    for one in formats:
        needs = "" if one.extra is None else "installed" if is_ready(one) else f'pip install "outlark[{one.extra}]"'
        able = ["yes" if able else "no" for able in (one.reads, one.writes)]
        rows.append([one.name, *able, one.suffix, one.what, needs])
    tables.show(rows)


def _show(told: dict[str, Any]) -> None:
    done = " and ".join(word for word, able in (("read", told["reads"]), ("written", told["writes"])) if able)
    say(f"{told['name']}: {told['what']}; is {done}; files end in {told['ends_in']}", err=True)
    if not told["ready"]:
        say(f"it needs: {told['install']}", err=True)
    if told["example"] is not None:
        say(told["example"], nl=not told["example"].endswith("\n"))
    elif told["ready"]:
        say("no example: outlark does not write it, or it is no text", err=True)


def _checked(name: str, format: str | None, label_column: str | None) -> dict[str, Any]:
    from outlark.annotations import read_table

    try:
        table = read_table(name, format=format, label_column=label_column)
    except AnnotationError as error:
        return {"file": name, "error": str(error)}
    labels = Counter(mark.label for mark in table.marks)
    return {
        "file": name,
        "format": table.format,
        "marks": len(table.marks),
        "labels": {label: n for label, n in sorted(labels.items(), key=str) if label is not None},
        "without_label": labels[None],
        "points": sum(mark.start_s == mark.end_s for mark in table.marks),
        "recordings": sorted({mark.recording for mark in table.marks if mark.recording is not None}),
        "starts_s": min((mark.start_s for mark in table.marks), default=None),
        "ends_s": max((mark.end_s for mark in table.marks), default=None),
        "remarks": list(table.remarks),
    }


def _tell_checked(found: Sequence[dict[str, Any]], quiet: bool) -> None:
    for one in found:
        if "error" in one:
            say(f"Error: {one['error']}", err=True)
            continue
        if quiet:
            continue
        span = "" if one["starts_s"] is None else f" from {one['starts_s']:.3f} to {one['ends_s']:.3f} s"
        say(f"{one['file']}: {one['format']}, {number_of(one['marks'], 'mark')}{span}")
        told = {"without a label": one["without_label"], "points": one["points"], "recordings": len(one["recordings"])}
        told = {what: n for what, n in told.items() if n}
        for what, n in {**one["labels"], **told}.items():
            say(f"  {n:6} {what}")
        for remark in one["remarks"]:
            say(f"  {remark}")
