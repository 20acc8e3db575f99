"""The frame of the command line: help, errors, exit codes, and documents that can fail."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import outlark
from outlark.cli.main import COMMANDS, SHARED, main
from tests.recordings_on_disk import OUTLARK, environment
from tests.recordings_on_disk import outlark as run

THERE = main.list_commands(click.Context(main))
DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(Path(outlark.__file__).parent.glob("cli/pages/*.md"))
SLOW = {"numpy", "scipy", "sklearn", "soundfile", "matplotlib", "rich"}


@pytest.mark.parametrize("args", [["--help"], ["--version"], *([verb, "--help"] for verb in THERE)], ids=" ".join)
def test_help_imports_nothing_that_is_slow(args):
    code = (
        "import sys\nfrom outlark.cli.main import main\n"
        f"try: main({args!r})\nexcept SystemExit as end: assert not end.code\n"
        "print(*{name.split('.')[0] for name in sys.modules}, sep=',', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not SLOW & set(done.stderr.strip().split(","))
    assert "outlark" in done.stdout


def test_commands_are_listed_in_order_of_use():
    shown = CliRunner().invoke(main, ["--help"]).output
    listed = re.findall(r"^  ([a-z]+) {2,}(.*)$", shown.split("Commands:")[1], flags=re.MULTILINE)
    assert listed == list(COMMANDS.items())
    modules = {path.stem for path in Path(outlark.__file__).parent.glob("cli/*.py")}
    assert {SHARED.get(name, name) for name in COMMANDS} <= modules


@pytest.mark.parametrize("name", THERE)
def test_every_argument_and_option_is_explained(name):
    command = main.get_command(click.Context(main), name)
    assert len(command.help or "") > 30
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            assert parameter.make_metavar(click.Context(command)).strip(".[]").split("|")[0].strip("{") in command.help
        else:
            assert len(parameter.help or "") > 10, f"{name} {parameter.opts} has no help"


def test_the_reference_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_command_line", DOCS / "make_command_line.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    written = maker.PAGE.read_text(encoding="utf-8")
    assert written == maker.page(), "docs/command-line.md is out of date: run make docs-reference"
    assert {path.stem for path in PAGES} <= {"index", *COMMANDS}
    assert "\b" not in written
    for code in (0, 1, 2, 3, 130):
        assert re.search(rf"^\| {code} \|", written, flags=re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_notes_name_options_that_exist(path):
    text = path.read_text(encoding="utf-8")
    for name, options in re.findall(r"outlark ([a-z]+)((?: [^`#\n|]*)?)", text):
        if name in COMMANDS:
            command = main.get_command(click.Context(main), name)
            there = {opt for p in command.params for opt in (*p.opts, *p.secondary_opts)}
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", options)) <= there, f"{path}: outlark {name}{options}"


def test_errors_are_one_message(tmp_path):
    done = run("detect", tmp_path / "no.outlark", tmp_path, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert not (tmp_path / "out").exists()
    assert done.stdout == ""
    assert re.fullmatch(
        r"Error: there is no model file .*no.outlark; check the path, or train a model with 'outlark train'\n",
        done.stderr,
    )


def test_a_broken_model_leaves_nothing_behind(tmp_path):
    (tmp_path / "m.outlark").write_bytes(b"no model")
    done = CliRunner().invoke(main, ["detect", str(tmp_path / "m.outlark"), str(tmp_path), "-o", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "not a model file, or damaged or cut short: it begins with 'no model'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_errors_as_json(tmp_path):
    args = ["detect", str(tmp_path / "no.outlark"), str(tmp_path), "-o", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(main, args)
    told = json.loads(done.stdout)
    assert told.keys() == {"error", "exit_code"}
    assert told["exit_code"] == done.exit_code == 1
    assert done.stderr == f"Error: {told['error']}\n"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["fly"], "No such command 'fly'. The commands are train, calibrate, detect"),
        (["detct"], "No such command 'detct'. Did you mean detect?"),
        (["Evaluate"], "Did you mean evaluate"),
        (["inspekt", "m"], "Did you mean inspect?"),
        (["detect", "m"], "Missing argument 'RECORDINGS...'"),
        (["detect", "m", "r"], "Missing option '--output'"),
        (
            ["detect", "m", "r", "-o", "x", "--format", "csv,exel"],
            "'exel' is not a format that can be written; choose from",
        ),
        (
            ["detect", "m", "r", "-o", "x", "--min-duration", "soon"],
            "'soon' is not a duration; give seconds, such as 0.076, or 76ms",
        ),
        (["detect", "m", "r", "-o", "x", "--activity-db", "loud"], "'loud' is not a level in decibels; give a number"),
        (["detect", "m", "r", "-o", "x", "--channel", "0"], "'0' is not a channel; give mix, or a number from 1"),
        (["completion", "cmd"], "'cmd' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_wrong_usage(args, told):
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())
    as_json = CliRunner().invoke(main, [*args, "--json"])
    assert as_json.exit_code == json.loads(as_json.stdout)["exit_code"] == 2


def test_all_and_verdict_do_not_go_together(model, recordings, tmp_path):
    done = CliRunner().invoke(
        main, ["detect", str(model), str(recordings), "-o", str(tmp_path), "--all", "--verdict", "known"]
    )
    assert (done.exit_code, "give --all or --verdict, not both" in done.stderr) == (2, True)


def test_nobody_reads_what_is_printed():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*OUTLARK, "completion", "bash"], stdout=writer, stderr=subprocess.PIPE, env=environment())
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_OUTLARK_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("words", "cword", "expected"),
    [
        ("outlark de", 1, "detect"),
        ("outlark detect --keep", 2, "--keep-scores"),
        ("outlark detect --format rav", 3, "raven"),
    ],
)
def test_completion_completes(words, cword, expected):
    asked = {"_OUTLARK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(cword)}
    done = subprocess.run(OUTLARK, capture_output=True, text=True, env=environment() | asked, check=True)
    assert f"plain,{expected}" in done.stdout.split()


def test_warnings_are_one_line():
    code = """
import click, warnings
from outlark.cli.main import main

@click.command()
def warn():
    warnings.warn("a guess; give two or more", stacklevel=2)

main.get_command = lambda ctx, name: warn
main(["warn"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "Warning: a guess; give two or more\n")


def test_public_names_come_when_they_are_asked_for():
    code = (
        "import sys, outlark\nassert 'numpy' not in sys.modules\n"
        "assert outlark.NoteDetector.__name__ == 'NoteDetector'\nassert 'numpy' in sys.modules\n"
        "assert outlark.metrics.__name__ == 'outlark.metrics'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in outlark.__all__:
        assert getattr(outlark, name) is not None
    assert set(outlark.__all__) <= set(dir(outlark))
    with pytest.raises(AttributeError, match="module 'outlark' has no attribute 'NoteDetektor'"):
        outlark.NoteDetektor  # noqa: B018
    space: dict = {}
    exec("from outlark import *", space)
    assert set(outlark.__all__) <= set(space)
