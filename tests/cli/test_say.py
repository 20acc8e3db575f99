"""Labels and file names may hold anything: no command fails for one, and none reaches a terminal as it is."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.plain_text import as_named, visible, visible_json, writable
from tests.recordings_on_disk import OUTLARK, environment

#: Sets the title of a window, colours, turns the writing round, clears the screen (CSI in one character).
COMMANDS = "\x1b]0;title\x07\x1b[31m\u202eevil\x9b2J"
#: A name in Latin-1 on a system of UTF-8.
LATIN = os.fsdecode(b"caf\xe9")
RAW = (b"\x1b", b"\x07", b"\x9b", "\u202e".encode(), b"\xe9")
FORBIDDEN = ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write", "Console().print")
CLI = Path(__file__).parents[2] / "src" / "outlark" / "cli"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="such names only where file names are bytes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Clips, marked recordings and a model, all with such names."""
    folder = tmp_path_factory.mktemp("names")
    named = {"tuti-D": COMMANDS, "cach-Z": LATIN, "tuti-F": "tuti-F"}
    for i, note in enumerate(notes(counts={"tuti-D": 3, "cach-Z": 3})):
        (folder / "clips" / named[note.label]).mkdir(parents=True, exist_ok=True)
        save(folder / "clips" / named[note.label] / f"{i}{LATIN}.wav", note.samples)
    played = notes(seed=5, counts={"tuti-D": 3, "cach-Z": 3, "tuti-F": 1})
    audio, truth = concatenate(played, gap_s=0.2, edge_s=0.3, rng=np.random.default_rng(1))
    (folder / "rec").mkdir()
    for name in (COMMANDS, LATIN):
        save(folder / "rec" / f"{name}.wav", audio)
        spans = [{"start_s": note.start_s, "end_s": note.end_s, "label": named[note.label]} for note in truth]
        lines = [json.dumps({"recording": f"{name}.wav", **span}) for span in spans]
        (folder / "rec" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "raw").write_bytes((audio * 32767).astype("<i2").tobytes())
    run(folder, "train", "clips", "-o", "m.outlark")
    run(folder, "detect", "m.outlark", "rec", "-o", "out", "--format", "csv")
    return folder


def save(path, samples):
    soundfile.write(os.fsencode(path), samples, SAMPLE_RATE, format="WAV")


def run(folder, *words, code=0, encoding="utf-8", **more):
    """What a command prints, once it is found to be for people and programs to read."""
    env = {**environment(), "PYTHONIOENCODING": encoding}
    done = subprocess.run([*OUTLARK, *words], cwd=folder, capture_output=True, timeout=300, env=env, **more)
    told = done.stdout + done.stderr
    assert b"Traceback" not in told, told
    assert done.returncode == code, told
    assert [raw for raw in RAW if raw in told] == []
    return done


WORK = {
    "train on tables": ["train", "rec", "-o", "m2.outlark"],
    "inspect a model": ["inspect", "m.outlark"],
    "inspect recordings and tables": ["inspect", "rec/{0}.wav", "rec/{1}.wav", "rec/{0}.jsonl", "rec/{1}.jsonl"],
    "detect": ["detect", "m.outlark", "rec", "-o", "all", "--format", "csv,raven,audacity,jsonl,kaleidoscope,birdnet"],
    "detect to such a folder": ["detect", "m.outlark", "rec/{1}.wav", "-o", "{1}", "--calibrate", "--json"],
    "evaluate": ["evaluate", "out", "rec", "--model", "m.outlark"],
    "plot": ["plot", "m.outlark", "rec/{1}.wav", "-o", "{1}.png"],
    "convert": ["convert", "rec", "converted", "--to", "raven", "--audio", "rec"],
    "clips": ["clips", "rec/{1}.jsonl", "-o", "cut"],
    "calibrate": ["calibrate", "m.outlark", "rec", "-o", "m3.outlark", "--figure", "c.png"],
    "experiment": ["experiment", "rec", "-m", "mddkm", "--n-known", "2", "--seeds", "1", "-j", "1", "-o", "exp"],
}
WRONG = {
    "no such command": (2, ["{0}"]),
    "no such option": (2, ["train", "--{0}"]),
    "no such format": (2, ["formats", "{0}", "{1}"]),
    "no such file": (3, ["inspect", "no{0}", "no{1}"]),
    "no such model": (1, ["detect", "no{0}{1}", "rec", "-o", "never"]),
    "no such recording": (1, ["detect", "m.outlark", "no{0}{1}", "-o", "never", "--json"]),
}


@pytest.mark.parametrize("what", WORK)
def test_names_that_are_no_text_and_names_that_are_commands(folder, what):
    run(folder, *(word.format(COMMANDS, LATIN) for word in WORK[what]))


@pytest.mark.parametrize("what", WRONG)
def test_messages_spell_them_out(folder, what):
    code, words = WRONG[what]
    done = run(folder, *(word.format(COMMANDS, LATIN) for word in words), code=code)
    assert rb"\x1b]0;title\x07\x1b[31m\u202eevil\x9b2J" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii"])
@pytest.mark.parametrize("what", ["inspect a model", "evaluate"])
def test_terminals_that_know_few_letters(folder, what, encoding):
    run(folder, *(word.format(COMMANDS, LATIN) for word in WORK[what]), encoding=encoding)


def test_live_segments(folder):
    with (folder / "raw").open("rb") as sound:
        done = run(folder, "listen", "m.outlark", "--name", COMMANDS, stdin=sound)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["recording"] for line in lines[1:]} == {COMMANDS}
    assert {line["label"] for line in lines[1:] if line["verdict"] == "known"} == {COMMANDS, writable(LATIN)}


def test_what_was_found_and_the_truth_are_of_the_same_classes_and_recordings(folder):
    """The table of what was found spells out what the truth has as it is."""
    answer = json.loads(run(folder, "evaluate", "out", "rec", "--model", "m.outlark", "--json").stdout)
    assert answer["recordings"] == 2
    events = json.dumps(answer)
    assert "without detections" not in events
    table = run(folder, "evaluate", "out", "rec", "--model", "m.outlark").stdout.decode()
    of_latin = next(line for line in table.splitlines() if line.startswith(r"caf\udce9"))
    assert of_latin.split()[1] == "6"
    assert float(of_latin.split()[6]) > 0.9


@pytest.mark.parametrize("what", ["inspect a model", "evaluate"])
def test_on_a_terminal(folder, what):
    """There tables are drawn by another library, with colours of its own."""
    import pty

    theirs, ours = pty.openpty()
    words = [word.format(COMMANDS, LATIN) for word in WORK[what]]
    process = subprocess.Popen([*OUTLARK, *words], cwd=folder, stdout=ours, stderr=ours, env=environment())
    os.close(ours)
    told = b""
    while True:
        try:
            piece = os.read(theirs, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        told += piece
    os.close(theirs)
    assert process.wait() == 0, told
    assert rb"\x1b" in told
    for raw in (b"\x1b]0;", b"\x07", "\x9b".encode(), "\u202e".encode()):
        assert raw not in told


def test_one_function_prints():
    """Nothing in the verbs prints past outlark.cli.terminal."""
    for path in CLI.glob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        called = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
        past = [name for name in called if name in FORBIDDEN]
        assert past == [] or path.name == "terminal.py", path


@pytest.mark.parametrize("character", [*map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0xD800])])
def test_every_control_character_is_spelt_out(character):
    shown = visible(f"a{character}b")
    assert shown == f"a{character}b" if character in "\t\n" else character not in shown
    shown.encode()
    line = visible_json(json.dumps({"a": character}, ensure_ascii=False))
    assert character not in line
    assert json.loads(line) == {"a": character}


@pytest.mark.parametrize("text", ["Mönchsgrasmücke", "シジュウカラ", "a\u200db", "🐦", "", "C:\\up\\a.wav"])
def test_what_people_write_stays(text):
    assert visible(text) == visible_json(text) == writable(text) == as_named(text) == text
