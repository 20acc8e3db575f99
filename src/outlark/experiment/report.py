"""One HTML file that tells all of an experiment: no scripts, nothing from the network."""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from outlark.errors import InputError
from outlark.experiment.pictures import bars, curves
from outlark.experiment.report_style import STYLE
from outlark.experiment.report_words import (
    MADE_UP,
    PAPER_LINK,
    change_words,
    protocol_words,
    seed_words,
    version_words,
)
from outlark.experiment.results import Results
from outlark.experiment.table import Table
from outlark.experiment.tables import is_synthetic, table_1, table_2, table_classes, table_learnt, table_tests
from outlark.files.aside import written_aside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from outlark.experiment.sweep import Sweep

#: The method of the paper to the letter, whose Table 1 is shown beside ours.
LITERAL = "mddkm-paper"
#: Points for each inch of a page, and twice as many for sharp screens.
PAGE_DPI, DPI = 96, 192


def write_report(
    path: str | PathLike[str],
    results: Results,
    *,
    sweeps: "Sequence[Sweep]" = (),
    figure: "Figure | None" = None,
    ours: str = "mddkm",
    command: str | None = None,
) -> None:
    """Write an experiment as one HTML file. The same results, on the same machine, give the same bytes.

    Parameters
    ----------
    path : path
        The folder must exist. A file that is there is replaced, in one step, once the new one is written.
    results : Results
    sweeps : sequence of Sweep
        A picture for each.
    figure : matplotlib.figure.Figure, optional
        As `outlark.experiment.pictures.figure_1` draws it.
    ours : str
        The method that the others are compared with.
    command : str, optional
        What to type to get the same.

    Raises
    ------
    InputError
        If the method was not run, or the folder does not exist.
    """
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        wrong = "is a folder" if path.is_dir() else f"the folder {path.parent} does not exist"
        raise InputError(f"{path}: {wrong}; give the name of a file in a folder that exists")
    text = report(results, sweeps=sweeps, figure=figure, ours=ours, command=command)
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def report(
    results: Results,
    *,
    sweeps: "Sequence[Sweep]" = (),
    figure: "Figure | None" = None,
    ours: str = "mddkm",
    command: str | None = None,
) -> str:
    """What `write_report` writes."""
    results.of(ours)
    sections = [
        ("what", "What was done", _what(results)),
        ("table-2", "How well notes are found", table_2(results).html() + _picture(bars(results), "F of each method")),
        ("tests", "Paired tests", table_tests(results, ours).html() if len(results.methods) > 1 else ""),
        ("table-1", "What notes were called", _tables_1(results, ours)),
        ("figure-1", "A stretch of the test clip", _picture(figure, "Spectrogram, scores and decisions")),
        ("curves", "Harder and easier", "".join(_picture(curves(one), f"F over {one.title}") for one in sweeps)),
        ("learnt", "What was learnt", _learnt(results)),
        ("versions", "How to repeat it", _versions(results, command)),
    ]
    made_up = is_synthetic(results.data)
    title = f"Experiment on {'made-up notes' if made_up else results.data.name}"
    return _page(title, sections, MADE_UP if made_up else None)


def _page(title: str, sections: Iterable[tuple[str, str, str]], warning: str | None) -> str:
    there = [one for one in sections if one[2]]
    contents = "".join(f'<li><a href="#{key}">{name}</a></li>\n' for key, name, _ in there)
    body = "".join(f'<section id="{key}">\n<h2>{name}</h2>\n{content}</section>\n' for key, name, content in there)
    said = f'<p class="warning">{html.escape(warning)}</p>\n' if warning else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{html.escape(title)}</h1>\n{said}"
        f'<nav aria-label="Contents">\n<ol>\n{contents}</ol>\n</nav>\n{body}</main>\n</body>\n</html>\n'
    )


def _what(results: Results) -> str:
    changes = change_words(results.protocol)
    differs = (
        f"<p>What differs from the paper:</p>\n{_list(changes)}"
        if changes
        else "<p>The protocol is that of the paper, nothing is changed.</p>\n"
    )
    link = f'<p>The experiment is that of Sec. 4 of <a href="{PAPER_LINK}">the paper</a>, on {len(results.data.notes)} '
    n_classes = len(results.data.counts)
    start = f"{link}notes of {n_classes} classes, repeated for {_count(len(results.seeds), 'seed')}.</p>\n"
    remarks = f"<p>Of the data:</p>\n{_list(results.data.remarks)}" if results.data.remarks else ""
    return start + _paragraph(protocol_words(results)) + differs + table_classes(results.data).html() + remarks


def _tables_1(results: Results, ours: str) -> str:
    there = [one.name for one in results.methods]
    names = [ours, *([LITERAL] if LITERAL in there and ours != LITERAL else [])]
    return "".join(table_1(results, name, results.seeds[0]).html() for name in names)


def _learnt(results: Results) -> str:
    table = table_learnt(results)
    return table.html() if table.rows else ""


def _versions(results: Results, command: str | None) -> str:
    rows = (*version_words(), ("seeds", seed_words(results.seeds)))
    typed = f"<p>The same again:</p>\n<pre><code>{html.escape(command)}</code></pre>\n" if command else ""
    return typed + Table(title="Versions and seeds", head=("what", "which"), rows=rows, n_left=2).html()


def _picture(figure: "Figure | None", alt: str) -> str:
    if figure is None:
        return ""
    import matplotlib.style

    drawn = io.BytesIO()
    with matplotlib.style.context("default"):
        figure.savefig(drawn, format="png", dpi=DPI, metadata={"Software": None})
    width, height = (round(PAGE_DPI * inches) for inches in figure.get_size_inches())
    data = base64.b64encode(drawn.getvalue()).decode("ascii")
    return (
        f'<figure class="scroll" role="region" aria-label="{html.escape(alt)}" tabindex="0">\n<img width="{width}" '
        f'height="{height}" alt="{html.escape(alt)}" src="data:image/png;base64,{data}">\n</figure>\n'
    )


def _list(items: Iterable[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{html.escape(item)}</li>\n" for item in items) + "</ul>\n"


def _paragraph(sentences: Iterable[str]) -> str:
    return f"<p>{html.escape(' '.join(sentences))}</p>\n"


def _count(n: int, what: str) -> str:
    return f"one {what}" if n == 1 else f"{n} {what}s"
