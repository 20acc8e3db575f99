"""`outlark verify`: whether the results of a run are there and unchanged."""

from dataclasses import asdict
from typing import Any

import click

from outlark.cli import options
from outlark.cli.main import UNREADABLE
from outlark.cli.say import answer, say
from outlark.cli.steps import counted

#: Files that are listed; --json has all.
LISTED = 20


@click.command()
@click.argument("out", type=click.Path())
@options.reporting
def command(out: str, **given: Any) -> None:
    """Check that all results in OUT are there and unchanged.

    OUT is the output folder of 'outlark detect' or 'outlark decide'. Every table, and every file of scores, that its
    journal lists is compared with the digest that was taken when it was written. Tables that you have worked on since
    are told as well. Nothing is changed.
    """
    from outlark.batch.verification import verify

    with counted(given["quiet"], "recordings looked at") as watch:
        found = verify(out, watch)
    if not given["quiet"]:
        told = f"{found.files} files of {found.recordings} recordings in {out}"
        say(f"{told}: {'all as they were written' if not found.wrong else f'{len(found.wrong)} are not'}", err=True)
    for wrong in found.wrong[:LISTED]:
        say(f"  {wrong.file} {wrong.message}", err=True)
    if len(found.wrong) > LISTED:
        say(f"  … and {len(found.wrong) - LISTED} more; --json lists all", err=True)
    if found.wrong and not given["quiet"]:
        say("'outlark detect' with the same options makes missing ones again", err=True)
    if given["as_json"]:
        answer({"output": out, **asdict(found)})
    click.get_current_context().exit(UNREADABLE if found.wrong else 0)
