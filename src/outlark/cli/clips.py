"""`outlark clips`: annotated notes as sound files."""

from pathlib import Path
from typing import Any

import click

from outlark.cli import options
from outlark.cli.terminal import counted, finish


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--output", "-o", required=True, type=click.Path(), help="Folder for the clips; created if necessary.")
@options.reading
@click.option(
    "--pad",
    "pad_s",
    type=options.seconds,
    default="0",
    show_default=True,
    help="Extra sound before and after each note, such as 0.1 or 100ms.",
)
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice(options.VERDICTS),
    default=("known",),
    show_default=True,
    help="Cut annotations with this verdict. Repeatable.",
)
@options.names("--class", "classes", "Cut only this class. Repeatable.")
@options.whole_number("--max", "most", help="Cut at most N notes of each class.")
@click.option(
    "--format",
    "-f",
    type=click.Choice(["wav", "flac"]),
    help="Format of the clips. Default: FLAC for FLAC recordings, WAV for all others.",
)
@click.option(
    "--overwrite", is_flag=True, help="Write to a folder that is not empty; files with the same names are replaced."
)
@options.reporting
def command(paths: tuple[str, ...], output: str, **given: Any) -> None:
    """Cut the notes in each annotation FILE, or folder of them, out of their recordings.

    Each class gets a folder, so that you can look through the clips, sort them, and give them to 'outlark train'. File
    names contain the recording, the onset in seconds, and the time of day if the recorder stored it. Recordings are
    looked for in --audio, where 'outlark detect' read them, and beside each FILE. The list of all clips is in
    clips.csv.
    """
    from outlark.audio.sound_files import SoundFiles
    from outlark.commands.clips import make_clips

    said = {"quiet": given.pop("quiet"), "as_json": given.pop("as_json")}
    sounds = SoundFiles([*given.pop("audio"), *(audio for path in paths for audio in _where_detected(Path(path)))])
    with counted(said["quiet"], "recordings") as watch:
        found = make_clips(paths, Path(output), sounds, watch=watch, **given)
    finish(found, said)


def _where_detected(path: Path) -> list[Path]:
    """The folders in which a run found its recordings, as far as they are still there."""
    from outlark.batch.journal import JOURNAL, done_in
    from outlark.files.io import is_url

    if not Path(path, JOURNAL).is_file():
        return []
    done = [(name, entry["path"]) for name, entry in done_in(path).items()]
    here = [(Path(name), Path(whole)) for name, whole in done if not is_url(whole)]
    folders = {
        whole.parents[len(name.parts) - 1] for name, whole in here if whole.parts[-len(name.parts) :] == name.parts
    }
    return sorted(folder for folder in folders if folder.is_dir())
