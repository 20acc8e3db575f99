"""`outlark review`: the page."""

import webbrowser
from pathlib import Path

import click

from outlark.cli.say import answer, say
from outlark.errors import InputError


@click.command()
@click.argument("recordings", nargs=-1, type=click.Path())
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    help="Folder of the project. Without it: outlark-review beside the recordings.",
)
@click.option("--model", type=click.Path(path_type=Path), help="For the results of a run: the model that made them.")
@click.option(
    "--audio",
    type=click.Path(path_type=Path),
    multiple=True,
    help="For the results of a run: folder with the recordings that its model was trained on, to train it again.",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to serve at; any but loopback needs a token."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port to serve at. Without it: one that is free."
)
@click.option("--no-browser", is_flag=True, help="Print the address only; do not open a browser.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as one JSON object, for scripts.")
def command(
    recordings: tuple[str, ...],
    project: Path | None,
    model: Path | None,
    audio: tuple[Path, ...],
    host: str,
    port: int,
    no_browser: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Annotate, train and review RECORDINGS on a page in the browser.

    RECORDINGS are sound files and folders, or one output folder of 'outlark detect'; without any, a demonstration.
    Recordings stay where they are and are never changed. Everything you do on the page is saved immediately.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise InputError("the review page needs two more packages: pip install 'outlark[review]'") from None
    from outlark.review.opening import open_project
    from outlark.review.serving import bind, serve

    address = bind(host, port)  # first, because it is what fails at once
    try:
        opened = open_project(recordings, project, model, audio)
    except BaseException:
        address.socket.close()
        raise
    for problem in opened.problems:
        say(f"Warning: {problem['name']}: {problem['message']}", err=True)

    def started() -> None:
        if as_json:
            answer({"url": address.url, "project": str(opened.project.folder)})
        elif not quiet:
            say(f"{opened.title}: {address.url}")
            say("Ctrl-C ends it; everything is saved.", err=True)
        if address.token is not None:
            say(
                f"Warning: the connection to {host} is not encrypted: others on the network could read it.",
                err=True,
            )
        if not no_browser:
            webbrowser.open(address.url)

    serve(opened, address, started)
