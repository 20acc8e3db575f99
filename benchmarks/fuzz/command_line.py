"""Command lines: every command and option with values that are wrong, and files that are damaged."""

import json
import os
import random
import shutil
import socket
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np
import soundfile
from click.testing import CliRunner, Result

from fuzz.mutation import changed_bytes, changed_list, odd_text
from fuzz.target import Target, expect
from outlark import NoteDetector
from outlark.annotations import Annotation, write_annotations
from outlark.audio.sound import resample
from outlark.cli.main import COMMANDS, main
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.model_file import save

#: Arguments of an input are separated by this, which none of them can hold.
BETWEEN = b"\0"
RATE = 8000
TABLE = "a.Table.1.selections.txt"
LINES = (
    f"train {TABLE} -o new.outlark --no-check --class D --max-examples 2",
    "train recordings -o new.outlark --trim --force --quiet",
    f"train {TABLE} -o new.outlark --paper --negative b.flac --json",
    f"train {TABLE} -o new.outlark --from model.outlark --found found --label-column Annotation",
    "calibrate model.outlark b.flac -o new.outlark",
    "detect model.outlark a.wav -o out --format csv,raven --jobs 1 --min-duration 20ms --bridge 0.1 --activity-db none",
    "detect model.outlark recordings -o out --threshold D=0.5 --keep-scores --part-length 60 --json -q",
    "decide model.outlark found -o out --format jsonl --all",
    "verify found", "verify found --json",
    "summary found --by class,hour --output s.csv --site-from parent --timezone UTC --confidence 0.9",
    "summary found --json --class D --model model.outlark",
    "evaluate found a.wav --curve curve.csv --precision 0.9 --unknown F",
    f"evaluate found {TABLE} --model model.outlark --json", f"evaluate {TABLE} table.csv",
    f"evaluate {TABLE} table.csv --audio recordings --iou 0.5 --json",
    "plot model.outlark a.wav -o figure.png --start 0.1 --end 0:0.3 --title T",
    "inspect model.outlark", "inspect a.wav --json", f"inspect {TABLE} --label-column 3", "inspect damaged.outlark",
    "doctor model.outlark --strict",
    "convert table.csv out.txt --to raven", f"convert {TABLE} out.jsonl --label-column Annotation --json",
    "convert damaged.csv out.csv --from csv --audio recordings --force", "convert recordings out --to csv",
    f"clips {TABLE} -o out --audio recordings --pad 10ms --json", "clips table.csv -o out --class D --max 1 -f flac",
    "listen model.outlark --rate 8000 --dtype int16 --channels 2 --channel mix --name live --all",
    "review recordings --no-browser --project p --model model.outlark --json",
    "experiment recordings --seeds 1 --method mddkm --train 2 --n-known 1 --gap 0.1 --snr 20 --jobs 1",
    "experiment --list-methods", "demo --seeds 1", "formats --json", "data", "data get synthetic --to out",
    "completion bash", "--help", "--version", "train --help",
)  # fmt: skip
FILES = ("model.outlark", "damaged.outlark", "class.outlark", "a.wav", "b.flac", "damaged.wav", "empty.wav", TABLE,
         "table.csv", "damaged.csv", "found", "recordings", "recordings/D", "empty", "none", "none/x")  # fmt: skip
#: What would go on for long, or leave this machine: one option more makes it end when all arguments have been checked.
ENDED = dict.fromkeys(("detect", "decide", "demo", "experiment"), ("-o", "a.wav")) | {
    "data": ("--to", "a.wav"),
    "train": ("--no-check",),
}
#: Commands that draw: one in so many is run, of the others only the arguments are checked.
DRAWN, DRAWING = 30, {"plot": ("-o", "figure.x"), "summary": ("--figure", "figure.x")}
ENDS = ("done", "error", "usage", "unreadable")
NOT_HERE = {"data": ("great-tits",), "detect": ("--cluster",), "train": ("--embedding",)}


class CommandLine(Target):
    """Calls the program in this process, in a folder with small files, which is put in order after each input."""

    name = "commands"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "used")
        self._kept = folder / "kept"
        _make_files(self._kept)
        shutil.copytree(self._kept, self.folder)
        self._tidy = _listed(self.folder)
        taken = socket.create_server(("127.0.0.1", 0))
        self._taken = taken  # a port that `review` cannot have
        self._ended = {**ENDED, "review": ("--host", "127.0.0.1", "--port", str(taken.getsockname()[1]))}

    def close(self) -> None:
        self._taken.close()

    def seeds(self) -> list[bytes]:
        """Every command, as one would use it."""
        return [BETWEEN.join(word.encode() for word in line.split()) for line in LINES]

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        """An argument, or a few of its bytes; or an option of the command is added."""
        words = data.split(BETWEEN)
        if rng.random() < 0.03:
            return BETWEEN.join([_changed_word(words[0], rng), *words[1:]])
        if rng.random() < 0.25:
            at = rng.randrange(1, len(words) + 1)
            return BETWEEN.join([*words[:at], *_option(words[0], rng), *words[at + rng.randrange(2) :]])
        return BETWEEN.join([words[0], *changed_list(words[1:], rng, lambda word: _changed_word(word, rng))])

    def run(self, data: bytes) -> str:
        """The exit code, which must be documented; errors are messages, and JSON if that was asked for."""
        words = [_within(word.decode("utf-8", "surrogateescape")) for word in data.split(BETWEEN)]
        name = words[0]
        if any(word in NOT_HERE.get(name, ()) for word in words):
            return f"{name}: not here"
        if name in self._ended:  # twice, in case the last word takes a value
            words = [*(word for word in words if word != "--"), *2 * self._ended[name]]
        if zlib.crc32(data) % DRAWN:
            words += DRAWING.get(name, ()) if "--figure" in words or name == "plot" else ()
        with self._in_folder():
            done = CliRunner().invoke(main, words, input=bytes(range(256)) * 40)
        _check(done, words)
        said = done.stderr.strip().rpartition("\n")[2] if done.exit_code else ""
        return f"{name if name in COMMANDS else '?'} {ENDS[done.exit_code]}: {said}"

    @contextmanager
    def _in_folder(self) -> Iterator[None]:
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(before)
            if _listed(self.folder) != self._tidy:
                shutil.rmtree(self.folder)
                shutil.copytree(self._kept, self.folder)
                self._tidy = _listed(self.folder)


def _check(done: Result, words: list[str]) -> None:
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    expect(done.exit_code in (0, 1, 2, 3), f"exit code {done.exit_code}")
    expect("Traceback" not in done.output, "a traceback")
    if done.exit_code in (1, 2):
        expect(done.stderr.strip(), "an error without a message")
        expect("[Errno" not in done.stderr, f"a message of the operating system alone: {done.stderr}")
        if "--json" in words:
            told = json.loads(done.stdout.splitlines()[-1])
            expect(told["exit_code"] == done.exit_code, f"--json says {told}")


def _within(word: str) -> str:
    """No path leads out of the folder, and no URL to another machine."""
    word = word.replace("..", ".").replace("://", ":").replace("\0", "")
    return word.replace("/", "") if word.startswith("-") else word.lstrip("/~")


def _changed_word(word: bytes, rng: random.Random) -> bytes:
    how = rng.random()
    if how < 0.3:
        return rng.choice(FILES).encode()
    if how < 0.6:
        return odd_text(rng).replace("\0", "").encode("utf-8", "surrogateescape")
    if how < 0.65:
        return rng.choice(list(COMMANDS)).encode()
    return changed_bytes(word, rng).replace(BETWEEN, b"")


def _option(name: bytes, rng: random.Random) -> list[bytes]:
    """An option of the command, with a value if it takes one."""
    command = main.get_command(click.Context(main), name.decode("utf-8", "replace"))
    options = [] if command is None else [one for one in command.params if isinstance(one, click.Option)]
    if not options:
        return [b"--help"]
    option = rng.choice(options)
    words = [rng.choice([*option.opts, *option.secondary_opts]).encode()]
    if not option.is_flag:
        kind = option.type
        usual = list(map(str, kind.choices)) if isinstance(kind, click.Choice) else ["0", "1", "2", "0.5", "D", "csv"]
        words.append(_changed_word(b"1", rng) if rng.random() < 0.6 else rng.choice(usual).encode())
    return words


# ------------------------------------------------------------------------ files


def _make_files(folder: Path) -> None:
    """A model, recordings, annotations, the results of a run, and damaged files."""
    examples = notes(counts={"tuti-D": 2, "tuti-F": 2})
    clips = [0.5 * resample(note.samples, SAMPLE_RATE, RATE)[: RATE // 10] for note in examples]
    labels = [note.label[-1] for note in examples]
    for number, (clip, label) in enumerate(zip(clips, labels, strict=True)):
        (folder / "recordings" / label).mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / "recordings" / label / f"{number}.wav", clip, RATE)
    (folder / "empty").mkdir()
    save(NoteDetector().fit(clips, labels, RATE), folder / "model.outlark")
    gap = np.zeros(RATE // 10)
    samples = np.concatenate([part for clip in clips for part in (gap, clip)])
    samples += 1e-3 * np.random.default_rng(0).normal(size=len(samples))
    soundfile.write(folder / "a.wav", samples, RATE)
    soundfile.write(folder / "b.flac", samples[::-1], RATE)
    starts = [0.1 + 0.2 * number for number in range(len(clips))]
    found = [
        Annotation(start_s=s, end_s=s + 0.1, label=x, recording="a.wav") for s, x in zip(starts, labels, strict=True)
    ]
    write_annotations(folder / TABLE, found, format="raven")
    write_annotations(folder / "table.csv", found, format="csv")
    whole = (folder / "model.outlark").read_bytes()
    (folder / "damaged.outlark").write_bytes(whole[:2000])
    (folder / "damaged.csv").write_bytes((folder / "table.csv").read_bytes()[:400])
    (folder / "damaged.wav").write_bytes((folder / "a.wav").read_bytes()[:1001])
    (folder / "empty.wav").touch()
    words = ["detect", "model.outlark", "a.wav", "-o", "found", "-j", "1", "--keep-scores", "-q"]
    before = os.getcwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(main, words)
    finally:
        os.chdir(before)
    expect(done.exit_code == 0, done.output)


def _listed(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder, with size and time of change."""
    found = {}
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            about = os.stat(os.path.join(here, name), follow_symlinks=False)
            found[os.path.join(here, name)] = (about.st_size, about.st_mtime_ns)
    return found
