"""An experiment as files: numbers, figures, the test clip, and one HTML report without scripts or network access."""

import base64
import html
import io
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from outlark.annotations import Annotation, write_annotations
from outlark.audio.sound import for_decoder
from outlark.commands.figures import save_figure as save
from outlark.files.aside import written_aside
from outlark.paper.figures import bars, curves, figure_1
from outlark.paper.methods import method
from outlark.paper.protocol import Protocol, draw
from outlark.paper.results import Results
from outlark.paper.run import SETTINGS, Sweep, fitted
from outlark.paper.tables import Table, is_synthetic, table_1, table_2, table_classes, table_learnt, table_tests
from outlark.plain_text import number_of
from outlark.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The method as published, whose Table 1 is shown beside ours.
PUBLISHED = "mddkm-paper"
CLIP = "test_clip.wav"
#: Dots per inch of a page; twice as many are saved, for sharp screens.
PAGE_DPI = 96
SYNTHETIC = (
    "The recordings of the paper are not public. These notes are synthetic, and results on them are not the paper's "
    "results."
)
PAPER_LINK = "https://arxiv.org/abs/2108.12857"
PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { margin: 0; color: #1c2024; background: #fff; font: 16px/1.55 system-ui, "Segoe UI", Arial, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: break-word; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid #d4d9de; }
p, ul { max-width: 46rem; }
nav ol { columns: 16rem; max-width: 46rem; }
.warning { max-width: none; padding: .75rem 1rem; background: #fff4d6; font-weight: 600; }
.note { color: #5b6570; font-size: .875rem; margin: .4rem 0; }
.scroll { overflow-x: auto; margin: 1rem 0 .75rem; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; white-space: nowrap; }
th, td { padding: .3rem .75rem; text-align: right; white-space: nowrap; font-weight: 400; }
thead th { white-space: normal; font-weight: 600; vertical-align: bottom; border-bottom: 2px solid #d4d9de; }
.words { text-align: left; }
.line > * { border-top: 1px solid #d4d9de; }
.apart { color: #5b6570; font-style: italic; }
[colspan] { font-weight: 600; }
figure { margin: 1rem 0; overflow-x: auto; }
img { display: block; max-width: 100%; min-width: 680px; height: auto; }
pre { white-space: pre-wrap; background: #f4f6f8; padding: .75rem; }
@media print { img { min-width: 0; } table { font-size: 7.5pt; } th, td { padding: .15rem .4rem; } }
</style>
</head>
<body>
<main>
<h1>$title</h1>
$warning<nav aria-label="Contents">
<ol>
$contents</ol>
</nav>
$sections</main>
</body>
</html>
""")


def write(
    folder: Path, results: Results, *, sweeps: Sequence[Sweep] = (), command: str | None = None
) -> dict[str, str]:
    """Write everything into a folder, which is created if needed; returns description → path of each file.

    `command` is what to type to repeat the experiment, for the report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "every F": folder / "results.csv",
        "all numbers": folder / "results.json",
        "Figure 1": folder / "figure1.png",
        "report": folder / "report.html",
        "test clip": folder / CLIP,
        "its notes": folder / "test_clip.Table.1.selections.txt",
    }
    results.write_csv(files["every F"])
    results.write_json(files["all numbers"])
    drawn = draw(results.data, results.protocol, results.seeds[0])
    names = [one.name for one in results.methods]
    shown = [name for name in (PUBLISHED, "mddkm") if name in names] or names[:1]
    figure = figure_1(drawn, {method(name).title: fitted(method(name), drawn) for name in shown})
    save(figure, files["Figure 1"])
    with written_aside(files["report"]) as aside:
        text = report(results, sweeps=sweeps, figure=figure, command=command)
        aside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    with written_aside(files["test clip"]) as aside:
        soundfile.write(
            for_decoder(aside), drawn.audio.astype(np.float32), drawn.sample_rate, format="WAV", subtype="PCM_16"
        )
    annotations = [Annotation(start_s=n.start_s, end_s=n.end_s, label=n.label, recording=CLIP) for n in drawn.truth]
    write_annotations(files["its notes"], annotations, format="raven")
    for one in sweeps:
        files[f"sweep, {one.name}"] = folder / f"sweep_{one.name}.csv"
        one.write_csv(files[f"sweep, {one.name}"])
    return {what: str(path) for what, path in files.items()}


def report(
    results: Results,
    *,
    sweeps: Sequence[Sweep] = (),
    figure: "Figure | None" = None,
    command: str | None = None,
) -> str:
    """An experiment as one HTML page. The same results, on the same machine, give the same bytes.

    `figure` is that of `figure_1`; `command` is what to type to repeat the experiment.
    """
    ours = results.ours
    swept = "".join(_image(curves(one), f"F over {SETTINGS[one.name].title}") for one in sweeps)
    learnt = table_learnt(results)
    sections = [
        ("what", "What was done", _what(results)),
        ("table-2", "F scores", table_2(results).html() + _image(bars(results), "F of each method")),
        ("tests", "Paired tests", table_tests(results, ours).html() if len(results.methods) > 1 else ""),
        ("table-1", "Confusion matrices", _tables_1(results, ours)),
        ("figure-1", "An excerpt of the test clip", _image(figure, "Spectrogram, scores and decisions")),
        ("curves", "Robustness", swept),
        ("learnt", "Learnt settings", learnt.html() if learnt.rows else ""),
        ("versions", "How to repeat it", _versions(results, command)),
    ]
    there = [one for one in sections if one[2]]
    synthetic = is_synthetic(results.data)
    return PAGE.substitute(
        title=html.escape(f"Experiment on {'synthetic notes' if synthetic else results.data.name}"),
        warning=f'<p class="warning">{html.escape(SYNTHETIC)}</p>\n' if synthetic else "",
        contents="".join(f'<li><a href="#{key}">{name}</a></li>\n' for key, name, _ in there),
        sections="".join(f'<section id="{key}">\n<h2>{name}</h2>\n{text}</section>\n' for key, name, text in there),
    )


def _what(results: Results) -> str:
    data, changes = results.data, changes_in_words(results.protocol)
    start = (
        f'<p>The experiment of Sec. 4 of <a href="{PAPER_LINK}">the paper</a> on {len(data.notes)} notes of '
        f"{len(data.counts)} classes, repeated for {number_of(len(results.seeds), 'seed')}.</p>\n"
    )
    differs = "<p>The protocol is the paper's.</p>\n"
    if changes:
        differs = f"<p>What differs from the paper:</p>\n{_list(changes)}"
    remarks = f"<p>Remarks on the data:</p>\n{_list(data.remarks)}" if data.remarks else ""
    protocol = f"<p>{html.escape(' '.join(_protocol_in_words(results)))}</p>\n"
    return start + protocol + differs + table_classes(data).html() + remarks


def _protocol_in_words(results: Results) -> Iterable[str]:
    protocol, data = results.protocol, results.data
    known = f"{protocol.n_known} classes, drawn anew for each seed,"
    if data.known is not None:
        known = f"the {len(data.known)} known classes ({', '.join(data.known)})"
    verb = "is" if protocol.n_train == 1 else "are"
    yield (
        f"For each seed, {number_of(protocol.n_train, 'note')} of each of {known} {verb} drawn at random, and every "
        "method learns from the same notes."
    )
    yield (
        "The other notes follow one another in one test clip, in random order: notes of known classes, to be found and "
        "named, and notes of all other classes, which are out of distribution (OOD)."
    )
    yield (
        "F is measured on sliding windows of 96 samples at 22,050 Hz (4.4 ms), where a note that is found late costs "
        "windows, and at note level, where each note counts as what most of its windows were called."
    )
    if data.grouped:
        yield "Training and test notes never come from the same group: groups that train are not tested on."
    elif not is_synthetic(data):
        yield "The bird or recording of each note is not known, so training and test may share some."


def changes_in_words(protocol: Protocol) -> list[str]:
    """What differs from the experiment of the paper, one phrase for each setting."""
    said = {
        "n_train": f"{protocol.n_train} training notes of each known class instead of {Protocol().n_train}",
        "gap_s": f"{protocol.gap_s:g} s of silence between the test notes instead of none",
        "snr_db": f"white noise in training and test clips, {protocol.snr_db or 0.0:g} dB below the notes",
        "reverb_s": f"{protocol.reverb_s:g} s of reverberation in the test clip",
        "contamination": f"{protocol.contamination} of the training notes of each class are mislabelled",
        "imbalance": f"the first known class has {protocol.imbalance} times the training notes of the others",
        "n_known": f"{protocol.n_known} known classes where the data set does not name them",
        "n_unknown": f"{protocol.n_unknown} unknown classes where the data set does not name the known ones",
        "max_test": f"at most {protocol.max_test} test notes of each class",
    }
    return [said[name] for name in protocol.changes()]


def _tables_1(results: Results, ours: str) -> str:
    there = [one.name for one in results.methods]
    names = [ours, *([PUBLISHED] if PUBLISHED in there and ours != PUBLISHED else [])]
    return "".join(table_1(results, name, results.seeds[0]).html() for name in names)


def _versions(results: Results, command: str | None) -> str:
    seeds = results.seeds
    consecutive = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    rows = (
        ("outlark", __version__),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in ("numpy", "scipy", "scikit-learn")),
        ("platform", platform.platform()),
        ("processors", str(os.cpu_count())),
        ("seeds", f"{seeds[0]} to {seeds[-1]}" if consecutive else ", ".join(map(str, seeds))),
    )
    typed = f"<p>To repeat it:</p>\n<pre><code>{html.escape(command)}</code></pre>\n" if command else ""
    return typed + Table(title="Versions and seeds", head=("what", "which"), rows=rows, n_left=2).html()


def _image(figure: "Figure | None", alt: str) -> str:
    if figure is None:
        return ""
    import matplotlib.style

    drawn = io.BytesIO()
    with matplotlib.style.context("default"):
        figure.savefig(drawn, format="png", dpi=2 * PAGE_DPI, metadata={"Software": None})
    width, height = (round(PAGE_DPI * inches) for inches in figure.get_size_inches())
    data = base64.b64encode(drawn.getvalue()).decode("ascii")
    return (
        f'<figure>\n<img width="{width}" height="{height}" alt="{html.escape(alt)}" '
        f'src="data:image/png;base64,{data}">\n</figure>\n'
    )


def _list(items: Iterable[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{html.escape(item)}</li>\n" for item in items) + "</ul>\n"
