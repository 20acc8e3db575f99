"""Tables and steps as a terminal shows them, and elsewhere."""

import os
import pty
import re
import subprocess

import click
import pytest

from outlark.cli import options, terminal
from tests.recordings_on_disk import OUTLARK, environment


def on_a_terminal(*args):
    """What a run prints on a terminal, without its colours."""
    ours, theirs = pty.openpty()
    env = environment() | {"COLUMNS": "160", "TERM": "xterm"}
    process = subprocess.Popen([*OUTLARK, *map(str, args)], stdout=theirs, stderr=theirs, stdin=theirs, env=env)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # Linux says so when the last one has closed it
        pass
    os.close(ours)
    assert process.wait(60) == 0, shown
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_tables_have_lines_on_a_terminal(tmp_path):
    (tmp_path / "a.csv").write_text("recording,start_s,end_s,label\nn.wav,1,2,[red]wren[/red]\n")
    shown = on_a_terminal("evaluate", tmp_path / "a.csv", tmp_path / "a.csv")
    # labels are no markup
    assert re.search(r"│ \[red\]wren\[/red\] +│ +1 │", shown)
    assert "┃" in shown


def test_steps_are_shown_on_a_terminal(tmp_path):
    code = "from outlark.cli.terminal import steps\nwith steps(False) as tell:\n    tell('[b]3 of 4 files read')"
    ours, theirs = pty.openpty()
    subprocess.run([OUTLARK[0], "-c", code], stderr=theirs, check=True, env=environment() | {"TERM": "xterm"})
    os.close(theirs)
    assert "[b]3 of 4 files read" in os.read(ours, 65536).decode()
    os.close(ours)


def test_numbers_are_to_the_right_elsewhere(capsys):
    terminal.show_table([["class", "n", "what"], ["wren", "12", "a"], ["tit", "3", "bc"]], "birds")
    assert capsys.readouterr().out == "birds\nclass   n  what\nwren   12  a\ntit     3  bc\n"


def test_steps_elsewhere_are_lines_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "LINES_S", 0.0)
    with terminal.steps(False) as tell:
        tell("reading")
    monkeypatch.setattr(terminal, "LINES_S", 60.0)
    with terminal.steps(False) as tell:
        tell("too soon")
    monkeypatch.setattr(terminal, "LINES_S", 0.0)
    with terminal.steps(True) as tell:
        tell("quiet")
    assert capsys.readouterr().err == "reading\n"


@pytest.mark.parametrize(("done", "name"), [("read", "textgrid"), ("written", "raven")])
def test_names_of_formats(done, name):
    context, parameter = click.Context(click.Command("x")), click.Option(["--x"])
    kind = options.FormatName(done)
    assert kind.convert(name, parameter, context) == name
    assert options.FormatNames(done).convert(f"{name}, {name}", parameter, context) == (name,)
    with pytest.raises(click.BadParameter, match=f"'exel' is not a format that can be {done}"):
        kind.convert("exel", parameter, context)
    context.resilient_parsing = True  # a shell asks for completions and should not wait
    assert kind.convert("exel", parameter, context) == "exel"


def test_completion_of_formats():
    context, parameter = click.Context(click.Command("x")), click.Option(["--x"])
    assert [item.value for item in options.FormatName("read").shell_complete(context, parameter, "te")] == ["textgrid"]
    assert options.FormatName("written").shell_complete(context, parameter, "te") == []
