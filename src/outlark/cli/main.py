"""The program `outlark`: its commands, and how it ends.

Exit codes: 0 done, 1 error, 2 wrong usage, 3 finished but some files could not be processed, 130 stopped by Ctrl-C.
"""

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import get_completion_class

from outlark.cli.terminal import ERROR, STOPPED, answer, say
from outlark.errors import OutlarkError
from outlark.version import __version__

#: In order of use. The summaries are here so that help does not have to import the commands.
COMMANDS = {
    "train": "Learn classes of notes from examples.",
    "calibrate": "Fit a model's thresholds to unlabelled recordings.",
    "detect": "Find notes in recordings.",
    "decide": "Decide again from stored scores, without the recordings.",
    "verify": "Check that the results of a run are complete and unchanged.",
    "summary": "Count notes per hour of recording, by class, site, day and hour.",
    "evaluate": "Compare detections with reference annotations.",
    "review": "Annotate, train and review in the browser.",
    "plot": "Plot an excerpt of a recording with scores and decisions.",
    "inspect": "Describe a model, a recording or an annotation file.",
    "doctor": "Look for mistakes that a model is likely to make.",
    "convert": "Convert annotation files to another format.",
    "clips": "Cut annotated notes out of recordings.",
    "listen": "Find notes in live sound.",
    "experiment": "Repeat the experiment of the paper, on any data.",
    "demo": "Run the experiment of the paper in a minute, with figures.",
    "formats": "List the annotation formats.",
    "data": "Get recordings to try things on.",
    "completion": "Print a shell completion script.",
    "help": "Show the manual page of a command.",
}
#: Commands that share a module with another one. The others are `outlark.cli.<command>.command`.
SHARED = {
    "calibrate": "detect",
    "decide": "detect",
    "verify": "detect",
    "doctor": "inspect",
    "formats": "convert",
    "demo": "experiment",
    "completion": "main",
}


class Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"outlark.cli.{SHARED.get(cmd_name, cmd_name)}")
        return getattr(module, cmd_name if cmd_name in SHARED else "command")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was asked for, or an error that suggests similar ones."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = get_close_matches(args[0].lower(), COMMANDS, n=3, cutoff=0.55)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"The commands are {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; whatever goes wrong ends in one message and an exit code."""
        extra["windows_expand_args"] = windows_expand_args
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        given = list(sys.argv[1:] if args is None else args)
        with _errors_reported(as_json="--json" in given), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = super().main(given, prog_name or "outlark", complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", prog_name="outlark", help="Print the version and exit.")
def main() -> None:
    """Finds the notes you know and tells you which ones you don't.

    Train a model on a few examples of each note, detect notes in recordings, and open the results in the program you
    already use. Run 'outlark COMMAND --help' for the options of a command, 'outlark help COMMAND' for its manual page.
    """


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in a SHELL.

    \b
    bash: outlark completion bash >> ~/.bashrc
    zsh:  outlark completion zsh >> ~/.zshrc
    fish: outlark completion fish > ~/.config/fish/completions/outlark.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    say(kind(main, {}, "outlark", "_OUTLARK_COMPLETE").source())


@contextmanager
def _errors_reported(*, as_json: bool) -> Iterator[None]:
    """Turn every expected error into a message and an exit code."""
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
        # the reader has gone, as in "outlark … | head"; flushing what is left would fail again when Python exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ERROR)
    except (OutlarkError, OSError) as error:
        message = _of_system(error) if isinstance(error, OSError) else str(error)
        say(f"Error: {message}", err=True)
        _end(message, ERROR, as_json)


def _of_system(error: OSError) -> str:
    """What the operating system says, with what to do.

    >>> _of_system(FileExistsError(17, "File exists", "a.wav"))
    'a.wav: File exists; choose another path, or check that you may read and write there'
    """
    if error.strerror is None:
        return str(error)
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror}; choose another path, or check that you may read and write there"


def _end(message: str, code: int, as_json: bool) -> None:
    if as_json:
        answer({"error": message, "exit_code": code})
    sys.exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"Warning: {message}", err=True)
