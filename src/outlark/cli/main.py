"""The program `outlark`: its verbs, and how it ends.

Exit codes: 0 done, 1 error, 2 wrong usage, 3 finished but some files could not be read, 130 stopped by Ctrl-C.
"""

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from outlark.cli.say import answer, say
from outlark.errors import OutlarkError
from outlark.version import __version__

ERROR, UNREADABLE, STOPPED = 1, 3, 130
#: In the order of use. The text is here so that help needs no import of the verbs.
VERBS = {
    "train": "Learn classes of notes from examples.",
    "calibrate": "Fit the thresholds of a model to recordings, without labels.",
    "detect": "Find notes in recordings.",
    "decide": "Decide again on scores that were kept, without the recordings.",
    "verify": "Check that the results of a run are there and unchanged.",
    "summary": "Count notes per hour of listening, by class, site, day and hour.",
    "evaluate": "Compare what was found with the truth.",
    "review": "Annotate, train and review on a page in the browser.",
    "plot": "Draw a stretch of a recording with scores and decisions.",
    "inspect": "Say what is in a model, a recording or a table.",
    "doctor": "Say what a model would get wrong.",
    "convert": "Turn a table into another format.",
    "clips": "Cut what was found to sound files.",
    "listen": "Find notes in live sound.",
    "experiment": "Repeat the experiment of the paper, on any data.",
    "demo": "The experiment of the paper in a minute, with pictures.",
    "formats": "List the formats of tables.",
    "data": "Get recordings to try things on.",
    "completion": "Print the completion script of a shell.",
}


class Verbs(click.Group):
    """A group whose commands are `outlark.cli.<verb>.command`, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs that there are, in the order of use."""
        return [verb for verb in VERBS if find_spec(f"outlark.cli.{verb}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb."""
        if cmd_name not in self.list_commands(ctx):
            return None
        return import_module(f"outlark.cli.{cmd_name}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that is asked for, or an error with those that look like it."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            verbs = self.list_commands(ctx)
            near = get_close_matches(args[0].lower(), verbs, n=3, cutoff=0.55)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(verbs)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs in the help, without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, VERBS[verb]) for verb in self.list_commands(ctx)])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a verb; whatever goes wrong ends in one message and an exit code."""
        extra["windows_expand_args"] = windows_expand_args
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        given = list(sys.argv[1:] if args is None else args)
        with _told(as_json="--json" in given), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = super().main(given, prog_name or "outlark", complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", prog_name="outlark", help="Print the version and exit.")
def main() -> None:
    """Finds the notes you know and tells you which ones you don't.

    Train on a few examples of each note, detect in recordings, and open the tables in the program you use.
    'outlark VERB --help' tells the options of a verb.
    """


@contextmanager
def _told(*, as_json: bool) -> Iterator[None]:
    """Every error that is not a mistake of ours as a message and an exit code."""
    try:
        yield
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        say(shown.getvalue(), err=True, nl=False)
        _end(error.format_message(), error.exit_code, as_json)
    except click.Abort:
        _end("stopped", STOPPED, as_json)
    except BrokenPipeError:
        # nobody reads on, as in "outlark … | head"; what is still to be printed would fail again when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ERROR)
    except (OutlarkError, OSError) as error:
        say(f"Error: {error}", err=True)
        _end(str(error), ERROR, as_json)


def _end(message: str, code: int, as_json: bool) -> None:
    if as_json:
        answer({"error": message, "exit_code": code})
    sys.exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"Warning: {message}", err=True)
