"""`outlark clips`: what was found, cut to sound files."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import options, tables
from outlark.cli.main import UNREADABLE
from outlark.cli.many import tell_failures
from outlark.cli.say import answer, say
from outlark.cli.steps import steps
from outlark.errors import InputError
from outlark.plain_text import number_of

if TYPE_CHECKING:
    from outlark.commands.clips.clips import Choices, Clip, Uncut

LIST, FAILURES = "clips.csv", "failures.csv"


@click.command()
@click.argument("paths", metavar="TABLE...", nargs=-1, required=True, type=click.Path())
@click.option("--output", "-o", required=True, type=click.Path(), help="Folder for the clips; made if needed.")
@tables.reading
@click.option(
    "--pad", type=options.Seconds(), default="0", show_default=True, help="More of the recording, before and after."
)
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice(options.VERDICTS),
    default=("known",),
    show_default=True,
    help="Cut marks of this verdict; may be given several times.",
)
@click.option("--class", "classes", multiple=True, metavar="NAME", help="Cut this class only; may be given again.")
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="At most so many of each class.")
@click.option(
    "--format",
    "-f",
    "format",
    type=click.Choice(["wav", "flac"]),
    help="Format of the clips. Without it: FLAC from FLAC, else WAV.",
)
@click.option("--overwrite", is_flag=True, help="Write to a folder that is not empty; same names are replaced.")
@options.reporting
def command(paths: tuple[str, ...], output: str, **given: Any) -> None:
    """Cut what each TABLE marks to sound files.

    Each class gets a folder, so that the clips can be looked through, sorted, and given to 'outlark train'. Their names
    tell the recording, the second at which they begin, and the time of day where the recorder wrote it down. Recordings
    are looked for under --audio and beside each TABLE. A list of what was cut from where is in clips.csv.
    """
    from outlark.annotations import read_table
    from outlark.audio.sound_files import SoundFiles
    from outlark.commands.clips.clips import choose, cut, write_list

    folder = Path(output)
    _check_folder(folder, given["overwrite"])
    read = [read_table(path, label_column=given["label_column"]) for path in paths]
    sounds = SoundFiles(given["audio"])
    found = choose(read, sounds, verdicts=given["verdicts"], classes=given["classes"], most=given["most"])
    if not found.choices:
        raise InputError(_nothing(found, read))
    total = len({choice.recording for choice in found.choices})
    with steps(given["quiet"]) as tell:
        clips, uncut = cut(
            found.choices,
            folder,
            pad_s=given["pad"],
            format=given["format"],
            watch=lambda done: tell(f"{done} of {total} recordings"),
        )
    failures = [*found.uncut, *uncut]
    folder.mkdir(parents=True, exist_ok=True)
    write_list(folder / LIST, clips)
    _write_failures(folder / FAILURES, failures)
    remarks = _tell(clips, found.remarks, folder, given["quiet"])
    tell_failures(failures, folder / FAILURES)
    if given["as_json"]:
        answer(_content(clips, failures, remarks, folder))
    click.get_current_context().exit(UNREADABLE if failures else 0)


def _check_folder(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give a folder for the clips with -o")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; give another folder, or --overwrite to put the clips there")


def _nothing(found: "Choices", tables: Sequence[Any]) -> str:
    if found.uncut:
        return "nothing to cut: " + "; ".join(uncut.message for uncut in found.uncut[:3])
    why = "; ".join(found.remarks) or f"no marks in {', '.join(str(table.path) for table in tables)}"
    return f"nothing to cut: {why}; --verdict and --class tell what to cut"


def _write_failures(path: Path, failures: "Sequence[Uncut]") -> None:
    from outlark.annotations.files import encoded, write_bytes

    if not failures:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("what", "message"), *failures])
    write_bytes(path, encoded(text.getvalue()))


def _tell(clips: "Sequence[Clip]", remarks: Sequence[str], folder: Path, quiet: bool) -> list[str]:
    """Say what was cut; what there is to remark."""
    rounded = sum(not clip.exact for clip in clips)
    remarks = [
        *remarks,
        *([f"{number_of(rounded, 'clip')} rounded to 24 bits, the most that FLAC holds"] if rounded else []),
    ]
    if not quiet:
        for remark in remarks:
            say(remark, err=True)
        told = ", ".join(f"{n} {name}" for name, n in _folders(clips).items())
        say(f"{number_of(len(clips), 'clip')} in {folder}{': ' if told else ''}{told}", err=True)
    return remarks


def _folders(clips: "Sequence[Clip]") -> dict[str, int]:
    """How many there are in each folder."""
    return dict(sorted(Counter(clip.file.split("/")[0] for clip in clips).items()))


def _content(
    clips: "Sequence[Clip]", failures: "Sequence[Uncut]", remarks: Sequence[str], folder: Path
) -> Mapping[str, Any]:
    return {
        "output": str(folder),
        "list": str(folder / LIST),
        "clips": len(clips),
        "folders": _folders(clips),
        "remarks": list(remarks),
        "failed": len(failures),
        "failures": [{"what": failure.what, "message": failure.message} for failure in failures],
    }
