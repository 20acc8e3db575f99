"""The documents can fail: code in the README runs, links lead somewhere, names and commands are documented."""

import inspect
import pkgutil
import re
import runpy
import shlex
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import outlark
import outlark.metrics
from outlark.cli.main import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = [ROOT / "docs" / name for name in ("detecting-notes.md", "open-set-classification.md", "tutorial-sensors.md")]
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if path.parent.name != "api")


def run_code_of(page: Path) -> int:
    """Run the Python of a page; count the values its comments promise, such as `expression  # [1, 2]`."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
    space: dict = {}
    exec(compile(code, page.name, "exec"), space)
    promised = re.findall(r"^(.*\S)  # (array\(.*\)|\[.*\])$", code, flags=re.MULTILINE)
    for expression, value in promised:
        found = eval(expression.removeprefix("print"), space)
        shown = str(found.tolist()) if isinstance(found, np.ndarray) and value.startswith("[") else repr(found)
        assert shown == value, f"{page.name}: {expression}"
    return len(promised)


def test_the_code_of_the_readme_runs_and_says_what_its_comments_say(capsys):
    assert run_code_of(ROOT / "README.md") == 2
    assert capsys.readouterr().out.startswith(re.search(r"```text\n(0.00 .*?)```", README, flags=re.DOTALL).group(1))


@pytest.mark.parametrize("page", GUIDES, ids=lambda p: p.stem)
def test_the_code_of_the_guides_runs_and_says_what_its_comments_say(page, capsys):
    assert run_code_of(page) >= 1


def test_the_commands_of_the_tutorial_run(tmp_path, monkeypatch):
    """From no recordings to calling rates, as the page says, in a new folder."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial-recordings.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```\n(.*?)```", page, flags=re.DOTALL) for line in block.splitlines()]
    assert len(lines) == 9
    for line in lines:
        assert line.startswith("outlark ")
        done = CliRunner().invoke(main, [*shlex.split(line)[1:], "--quiet"])
        assert done.exit_code == 0, f"{line}: {done.output}"
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    assert "tuti-D" in (tmp_path / "rates.csv").read_text()


def commands_of(page: Path) -> list[str]:
    """The lines of code blocks that call outlark; one that ends in a backslash goes on."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if re.match(r"(\$ )?outlark( |$)", line)]


COMMANDS = sorted({(page.name, line) for page in PAGES for line in commands_of(page) if "COMMAND" not in line})


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page}:{line[:60]}" for page, line in COMMANDS])
def test_commands_in_the_documents_are_understood(page, line):
    """Each command, option and value of a choice exists; the files need not."""
    words = shlex.split(re.sub(r"\$\(.*\)", "ADDRESS", line.removeprefix("$ ")), comments=True)[1:]
    for end in ("|", ">", ">>", "&", "&&", "2>", ";"):
        words = words[: words.index(end)] if end in words else words
    command, path, rest = main, click.Context(main, info_name="outlark"), words
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        command = command.get_command(path, rest[0])
        assert command is not None, f"there is no command {rest[0]!r}"
        path, rest = click.Context(command, parent=path, info_name=rest[0]), rest[1:]
    known = {name: option for option in command.get_params(path) for name in option.opts + option.secondary_opts}
    for number, word in enumerate(rest):
        if re.match(r"--?[a-zA-Z]", word):
            name, _, value = word.partition("=")
            assert name in known, f"{command.name} has no option {name}"
            if isinstance(known[name].type, click.Choice):
                assert (value or rest[number + 1]) in known[name].type.choices


def test_the_readme_is_short_and_names_the_two_commands():
    assert len(README.splitlines()) <= 200
    assert re.search(r"```\nmake demo .*\nmake test ", README)


@pytest.mark.parametrize("name", [n for n in outlark.__all__ if n[0].isupper() and not n.endswith("Error")])
def test_every_estimator_is_in_the_readme_or_a_guide(name):
    assert re.search(rf"`[^`]*\b{name}\b", README + "".join(page.read_text(encoding="utf-8") for page in GUIDES))


@pytest.mark.parametrize("name", [n for n in outlark.metrics.__all__ if n.islower()])
def test_every_metric_has_an_example(name):
    assert ">>>" in (getattr(outlark.metrics, name).__doc__ or "")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("plot_*.py")), ids=lambda p: p.stem)
def test_examples_run_and_make_a_picture(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(example), "--output", str(tmp_path)])
    runpy.run_path(str(example), run_name="__main__")
    pictures = list(tmp_path.glob("*.png"))
    assert pictures
    assert all(picture.stat().st_size > 20_000 for picture in pictures)
    assert "picture:" in capsys.readouterr().out


def test_every_parameter_of_every_estimator_is_documented():
    for name in [n for n in outlark.__all__ if hasattr(getattr(outlark, n), "_get_param_names")]:
        estimator = getattr(outlark, name)
        for parameter in estimator._get_param_names():
            _, text = inspect.cleandoc(estimator.__doc__).split("\n", 1)  # Python 3.13 does it itself
            assert re.search(rf"\b{parameter}\b", text), (name, parameter)


def test_what_the_architecture_names_is_there():
    """Modules by their paths, and functions and classes beside them."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "outlark"
    modules = set(re.findall(r"\b((?:[a-z_]+/)+[a-z_]+)\.py\b", text)) - {"tests/test_layers"}
    assert len(modules) > 20
    assert [name for name in modules if not (source / f"{name}.py").exists()] == []
    code = "\n".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    for name in ("find_examples", "learn", "fit_notes", "run", "analyse", "write_annotations", "save"):
        assert re.search(rf"\b{name}\b", text)
        assert re.search(rf"^def {name}\(", code, flags=re.MULTILINE)
    for name in ("DetectorStream", "NoteScorer", "DecisionStream", "DetectorModel", "FrontEnd", "Engine", "Resampler"):
        assert re.search(rf"\b{name}\b", text)
        assert re.search(rf"^class {name}\b", code, flags=re.MULTILINE)
    told = re.findall(r"`((?:\w+\.)?\w+)`[^`|]*?(?:in|\() ?`([\w/]+)\.py`", text)
    assert len(told) > 12
    for name, module in told:
        own = (source / f"{module}.py").read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"\b(?:def|class) {part}\b|^{part}\b.* = ", own, flags=re.MULTILINE), (name, module)


def test_what_the_paper_to_code_page_names_is_there():
    """Every `room.module` and `room.module.name`, which the site links to its documentation and source."""
    text = (ROOT / "docs" / "paper-to-code.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:maths|estimators|metrics|features|detection|paper|data)(?:\.\w+)+)`", text))
    assert len(names) > 15
    for name in sorted(names):
        assert pkgutil.resolve_name(f"outlark.{name}") is not None


def test_make_verbs_are_documented():
    makefile = (ROOT / "Makefile").read_text()
    documented = README + (ROOT / "CONTRIBUTING.md").read_text() + makefile.split("PYTHON", 1)[0]
    for verb in ("demo", "test", "quick", "lint", "format", "docs", "bench", "dist"):
        assert re.search(rf"^{verb}:", makefile, flags=re.MULTILINE)
        assert f"make {verb}" in documented
    named = re.findall(r"tests/[\w/]+(?:\.py)?", makefile)
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "propagated to other components",
        "settings that violate these two conditions",
        "deep features",
        "different levels of mathematical rigor",
        "70 point locations",
        "tree species detection using hyperspectral and lidar",
        "Freezing of ga[it]",
        "Landmine detection",
        "Malware detection",
        "sparsification",
        "statistical robustness properties",
    ],
)
def test_what_the_paper_leaves_for_later_has_a_row(sentence):
    """Sec. 1 and 5 of the paper: what is here, and what is not."""
    text = (ROOT / "docs" / "paper-to-code.md").read_text(encoding="utf-8")
    rows = [line for line in text[text.index("## What the paper leaves for later") :].splitlines() if sentence in line]
    assert len(rows) >= 1
    assert all(len(line.strip("|").split("|")) == 2 for line in rows)
