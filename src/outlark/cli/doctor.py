"""`outlark doctor`: mistakes that a model is likely to make."""

from typing import Any

import click

from outlark.cli import options
from outlark.cli.terminal import ERROR, finish, say


@click.command()
@click.argument("model", type=click.Path())
@click.option("--strict", is_flag=True, help="End with exit code 1 if there are problems.")
@options.reporting
def command(model: str, strict: bool, **given: Any) -> None:
    """Look for mistakes that a MODEL is likely to make.

    The model hears silence, noise, hum, clicks, tones and whistles, none of which is a note. Each training note is
    judged by what the others say about it. The training set and the settings are checked. No recordings are needed.
    """
    from outlark.commands.doctor import PROBLEM, examine_model

    detector = options.read_model(model)
    if not given["quiet"]:
        say("testing the model on sounds that are not notes …", err=True)
    found = examine_model(model, detector)
    finish(found, given, ERROR if strict and found.of(PROBLEM) else 0)
