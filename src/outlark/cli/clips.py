"""`outlark clips`: annotated notes as sound files."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import options
from outlark.cli.main import UNREADABLE
from outlark.cli.progress import counted
from outlark.cli.say import answer, say, say_failures
from outlark.errors import InputError, Problem
from outlark.plain_text import number_of

if TYPE_CHECKING:
    from outlark.commands.clips import Choices, Clip

LIST, FAILURES = "clips.csv", "failures.csv"


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--output", "-o", required=True, type=click.Path(), help="Folder for the clips; created if necessary.")
@options.reading
@click.option(
    "--pad",
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
    "format",
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
    from outlark.commands.clips import choose, cut, tables_of, write_list

    folder, remarks = Path(output), list[str]()
    _check_folder(folder, given["overwrite"])
    read, refused = tables_of(paths, given["label_column"], remarks)
    sounds = SoundFiles([*given["audio"], *(audio for path in paths for audio in _where_detected(Path(path)))])
    found = choose(read, sounds, verdicts=given["verdicts"], classes=given["classes"], most=given["most"])
    if not found.choices:
        raise InputError(_nothing(found, read))
    total = len({choice.recording for choice in found.choices})
    how = {"pad_s": given["pad"], "format": given["format"]}
    with counted(given["quiet"], "recordings") as watch:
        clips, uncut = cut(found.choices, folder, **how, watch=lambda done: watch(done, total))
    failures = [*refused, *found.uncut, *uncut]
    folder.mkdir(parents=True, exist_ok=True)
    write_list(folder / LIST, clips)
    _write_failures(folder / FAILURES, failures)
    remarks = _report(clips, [*remarks, *found.remarks], folder, given["quiet"])
    say_failures(failures, folder / FAILURES)
    if given["as_json"]:
        answer(_content(clips, failures, remarks, folder))
    click.get_current_context().exit(UNREADABLE if failures else 0)


def _check_folder(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give a folder for the clips with -o")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; give another folder, or --overwrite to put the clips there")


def _where_detected(path: Path) -> list[Path]:
    """The folders in which a run found its recordings, as far as they are still there."""
    from outlark.batch.journal import DONE, NAME, last_lines
    from outlark.batch.task import WORKSHOP
    from outlark.files.places import is_url

    if not Path(path, WORKSHOP, NAME).is_file():
        return []
    done = [(name, entry["path"]) for name, entry in last_lines(path).items() if entry.get("state") == DONE]
    here = [(Path(name), Path(whole)) for name, whole in done if not is_url(whole)]
    folders = {
        whole.parents[len(name.parts) - 1] for name, whole in here if whole.parts[-len(name.parts) :] == name.parts
    }
    return sorted(folder for folder in folders if folder.is_dir())


def _nothing(found: "Choices", tables: Sequence[Any]) -> str:
    if found.uncut:
        return "nothing to cut: " + "; ".join(uncut.message for uncut in found.uncut[:3])
    why = "; ".join(found.remarks) or f"no annotations in {', '.join(str(table.path) for table in tables)}"
    return f"nothing to cut: {why}; choose what to cut with --verdict and --class"


def _write_failures(path: Path, failures: Sequence[Problem]) -> None:
    from outlark.annotations.files import encoded, write_bytes

    if not failures:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("what", "message"), *failures])
    write_bytes(path, encoded(text.getvalue()))


def _report(clips: "Sequence[Clip]", remarks: Sequence[str], folder: Path, quiet: bool) -> list[str]:
    rounded = sum(not clip.exact for clip in clips)
    more = [f"{number_of(rounded, 'clip')} rounded to 24 bits, the most that FLAC can store"] if rounded else []
    remarks = [*remarks, *more]
    if not quiet:
        for remark in remarks:
            say(remark, err=True)
        counts = ", ".join(f"{n} {name}" for name, n in _folders(clips).items())
        say(f"{number_of(len(clips), 'clip')} in {folder}{': ' if counts else ''}{counts}", err=True)
    return remarks


def _folders(clips: "Sequence[Clip]") -> dict[str, int]:
    """The number of clips in each folder."""
    return dict(sorted(Counter(clip.file.split("/")[0] for clip in clips).items()))


def _content(
    clips: "Sequence[Clip]", failures: Sequence[Problem], remarks: Sequence[str], folder: Path
) -> Mapping[str, Any]:
    return {
        "output": str(folder),
        "list": str(folder / LIST),
        "clips": len(clips),
        "folders": _folders(clips),
        "remarks": list(remarks),
        "failed": len(failures),
        "failures": [{"what": failure.where, "message": failure.message} for failure in failures],
    }
