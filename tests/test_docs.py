"""The documents can fail: code in the README runs, links lead somewhere, names and commands are documented."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import outlark
import outlark.metrics
from outlark.cli.main import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = [ROOT / "docs" / name for name in ("detecting-notes.md", "open-set-classification.md", "tutorial-sensors.md")]
#: The parts of docs/command-line.md stand in a folder below it, and their links count from the page.
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if path.parent.name not in ("command-line", "api")
)


def test_the_code_of_the_readme_runs_and_says_what_its_comments_say(capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
    space: dict = {}
    exec(compile(code, "README.md", "exec"), space)
    assert capsys.readouterr().out.startswith(re.search(r"```text\n(0.00 .*?)```", README, flags=re.DOTALL).group(1))
    model, X = space["model"], space["X"]
    assert repr(model.predict(X[[0, 50, 120]])) == re.search(r"# (array\(.*\))", code).group(1)
    assert str(model.verdicts(X[[0, 50, 120]]).tolist()) == re.search(r"# (\['known'.*\])", code).group(1)


@pytest.mark.parametrize("page", GUIDES, ids=lambda p: p.stem)
def test_the_code_of_the_guides_runs(page, capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
    exec(compile(code, page.name, "exec"), {})


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
    (picture,) = tmp_path.glob("*.png")
    assert picture.stat().st_size > 20_000
    assert "picture:" in capsys.readouterr().out


def test_every_parameter_of_every_estimator_is_documented():
    for name in [n for n in outlark.__all__ if hasattr(getattr(outlark, n), "_get_param_names")]:
        estimator = getattr(outlark, name)
        for parameter in estimator._get_param_names():
            assert re.search(rf"^    .*\b{parameter}\b.*$", estimator.__doc__, flags=re.MULTILINE), (name, parameter)


def test_what_the_architecture_names_is_there():
    """Modules by their paths, and functions and classes beside them."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "outlark"
    modules = set(re.findall(r"\b((?:[a-z_]+/)+[a-z_]+)\.py\b", text)) - {"tests/test_layers"}
    assert len(modules) > 20
    assert [name for name in modules if not (source / f"{name}.py").exists()] == []
    code = "\n".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    for name in ("find_examples", "learn", "fit_model", "fit_notes", "run", "analyse", "write_annotations", "save"):
        assert re.search(rf"\b{name}\b", text)
        assert re.search(rf"^def {name}\(", code, flags=re.MULTILINE)
    for name in ("DetectorStream", "NoteScorer", "DecisionStream", "DetectorModel", "FrontEnd", "Engine", "Resampler"):
        assert re.search(rf"\b{name}\b", text)
        assert re.search(rf"^class {name}\b", code, flags=re.MULTILINE)


def test_make_verbs_are_documented():
    makefile = (ROOT / "Makefile").read_text()
    documented = README + (ROOT / "CONTRIBUTING.md").read_text() + makefile.split("PYTHON", 1)[0]
    for verb in ("demo", "test", "quick", "lint", "format", "docs", "bench"):
        assert re.search(rf"^{verb}:", makefile, flags=re.MULTILINE)
        assert f"make {verb}" in documented


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
