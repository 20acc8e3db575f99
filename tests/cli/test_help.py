"""Manual pages: complete, from the one source, in a pager on a terminal; and completion in real shells."""

import os
import re
import shutil
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from outlark.cli.help import blocks, page, section
from outlark.cli.main import COMMANDS, main
from tests.recordings_on_disk import OUTLARK, environment


def shown(*names, columns="80"):
    done = CliRunner(env={"COLUMNS": columns}).invoke(main, ["help", *names])
    assert done.exit_code == 0, done.output
    return done.stdout


def words(text):
    """Without Markdown, and however the lines are broken."""
    return " ".join(re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("*", "").split())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_holds_every_option_and_paragraph_of_the_reference(name):
    text, command = shown(name, columns="100"), main.get_command(click.Context(main), name)
    assert f"\n    outlark {name}" in text
    for option in (opt for p in command.params if isinstance(p, click.Option) and not p.hidden for opt in p.opts):
        assert re.search(rf"^ • .*{option}\b", text, flags=re.MULTILINE), option
    for block in (block for block in blocks(section(name)) if block[0] not in "|!#-`"):
        assert words(block) in words(text)
    assert not re.search(r"[\x00-\x08\x1b`]|\]\(", text)


def test_code_is_never_broken():
    lines = shown("train", columns="50").splitlines()
    for line in blocks(page("train"))[0].splitlines()[1:-1]:
        assert f"    {line}" in lines


def test_the_program_has_a_page():
    text = shown()
    assert list(COMMANDS) == re.findall(r"^ • outlark (\w+):", text, flags=re.MULTILINE)
    for block in (block for block in blocks(page("index")) if block[0] not in "|#`"):
        assert words(block) in words(text)


def test_a_command_that_does_not_exist():
    done = CliRunner().invoke(main, ["help", "detct"])
    assert done.exit_code == 2
    assert "No such command 'detct'. Did you mean detect?" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_gets_a_pager(tmp_path):
    master, terminal = os.openpty()
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > '{tmp_path}/read'\n")
    pager.chmod(0o755)
    env = {**environment(), "PAGER": str(pager), "TERM": "xterm"}
    command = [*OUTLARK, "help", "verify"]
    done = subprocess.run(command, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, env=env, timeout=300)
    os.close(terminal)
    os.close(master)
    assert (done.returncode, done.stderr) == (0, b"")
    read = (tmp_path / "read").read_text(encoding="utf-8")
    assert re.sub(r"\x1b\[[\d;]*m", "", read).split() == shown("verify").split()


@pytest.fixture
def program(tmp_path):
    """A folder with a program called outlark, as an installation has it."""
    path = tmp_path / "outlark"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m outlark "$@"\n')
    path.chmod(0o755)
    return {**environment(), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def shell(name, script, env):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}")
    done = subprocess.run([found, "-c", script], capture_output=True, text=True, env=env, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("outlark tr", ["train"]),
        ("outlark help de", ["detect", "decide", "demo"]),
        ("outlark detect --keep", ["--keep-scores"]),
        ("outlark xyz", []),
    ],
)
def test_a_real_bash_completes(program, typed, expected):
    script = f"""
    shopt -s expand_aliases
    source <(outlark completion bash)
    complete -p outlark | grep -q -- '-F _outlark_completion' || exit 7
    COMP_WORDS=({typed}) COMP_CWORD={len(typed.split()) - 1}
    _outlark_completion outlark
    echo "${{COMPREPLY[@]}}"
    """
    assert shell("bash", script, program) == expected


def test_a_real_fish_completes(program):
    found = shell("fish", "outlark completion fish | source; complete -C 'outlark tr'", program)
    assert found[0] == "train"


def test_a_real_zsh_takes_the_script(program):
    script = "autoload -Uz compinit; compinit -u -D; source <(outlark completion zsh); echo $_comps[outlark]"
    assert shell("zsh", script, program) == ["_outlark_completion"]
