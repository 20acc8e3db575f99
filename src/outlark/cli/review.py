"""`outlark review`: the page in the browser."""

import webbrowser
from pathlib import Path
from typing import Any

import click

from outlark.cli import options
from outlark.cli.terminal import answer, say
from outlark.errors import InputError


@click.command()
@click.argument("recordings", nargs=-1, type=click.Path())
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    help="Folder for the project. Default: outlark-review beside the recordings.",
)
@click.option("--model", type=click.Path(path_type=Path), help="For the results of a run: the model that made them.")
@click.option(
    "--audio",
    type=click.Path(path_type=Path),
    multiple=True,
    help="For the results of a run: folder with the recordings that its model was trained on, to train it again.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to serve the page at. Any address but loopback needs a token, which is part of the printed URL.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Port to serve the page at. Default: the same for a project each time, unless something else uses it.",
)
@click.option("--no-browser", is_flag=True, help="Print the address only; do not open a browser.")
@options.quiet
@click.option("--json", "as_json", is_flag=True, help="Print the address as one JSON object, for scripts.")
def command(
    recordings: tuple[str, ...], project: Path | None, model: Path | None, audio: tuple[Path, ...], **given: Any
) -> None:
    """Annotate, train and review RECORDINGS on a page in the browser.

    RECORDINGS are sound files and folders, or one output folder of 'outlark detect'. Without any, you get a
    demonstration. Recordings stay where they are and are never modified. Everything you do is saved at once.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise InputError("the review page needs two more packages: pip install 'outlark[review]'") from None
    from outlark.review.opening import open_project
    from outlark.review.serving import at_usual_port, bind, serve

    address = bind(given["host"], given["port"])  # first, because it fails at once
    try:
        opened = open_project(recordings, project, model, audio)
    except BaseException:
        address.socket.close()
        raise
    if given["port"] == 0:
        address = at_usual_port(address, opened.project.store.identity())
    for problem in (*opened.problems, *opened.project.missing()):
        say(f"Warning: {problem.where}: {problem.message}", err=True)

    def started() -> None:
        if given["as_json"]:
            answer({"url": address.url, "project": str(opened.project.folder)})
        elif not given["quiet"]:
            say(f"{opened.title}: {address.url}")
            say("Press Ctrl-C to stop; everything is saved.", err=True)
        if address.token is not None:
            say(
                f"Warning: the connection to {given['host']} is not encrypted: others on the network could read it.",
                err=True,
            )
        if not given["no_browser"]:
            webbrowser.open(address.url)

    serve(opened, address, started)
