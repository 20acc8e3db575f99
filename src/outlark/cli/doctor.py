"""`outlark doctor`: mistakes that a model is likely to make."""

from dataclasses import asdict

import click

from outlark.cli import options
from outlark.cli.main import ERROR
from outlark.cli.say import answer, say


@click.command()
@click.argument("model", type=click.Path())
@click.option("--strict", is_flag=True, help="End with exit code 1 if there are problems.")
@options.reporting
def command(model: str, strict: bool, quiet: bool, as_json: bool) -> None:
    """Look for mistakes that a MODEL is likely to make.

    The model hears silence, noise, hum, clicks, tones and whistles, none of which is a note. Each training note is
    judged by what the others say about it. The training set and the settings are checked. No recordings are needed.
    """
    from outlark.commands.doctor.doctor import examine
    from outlark.commands.doctor.findings import GOOD, PROBLEM, WARNING
    from outlark.storage.model_file import load

    detector = load(model)
    if not quiet:
        say("testing the model on sounds that are not notes …", err=True)
    found = sorted(examine(detector), key=lambda finding: (PROBLEM, WARNING, GOOD).index(finding.severity))
    counts = {severity: sum(f.severity == severity for f in found) for severity in (PROBLEM, WARNING, GOOD)}
    if as_json:
        answer({"model": model, **counts, "findings": [asdict(finding) for finding in found]})
    else:
        for finding in found:
            say(finding)
    if not quiet:
        say(f"problems: {counts[PROBLEM]}, warnings: {counts[WARNING]}, good: {counts[GOOD]}", err=True)
    click.get_current_context().exit(ERROR if strict and counts[PROBLEM] else 0)
