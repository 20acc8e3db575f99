"""`outlark completion`: verbs and options at the touch of a key."""

import click
from click.shell_completion import get_completion_class

from outlark.cli.say import say


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes verbs and options in a SHELL.

    \b
    bash: outlark completion bash >> ~/.bashrc
    zsh:  outlark completion zsh >> ~/.zshrc
    fish: outlark completion fish > ~/.config/fish/completions/outlark.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    root = click.get_current_context().find_root().command
    say(kind(root, {}, "outlark", "_OUTLARK_COMPLETE").source())
