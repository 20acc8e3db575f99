"""An experiment as files: numbers, Figure 1, the test clip, and one HTML report without scripts or network access."""

import base64
import html
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import soundfile

from outlark.annotations import Annotation, write_annotations
from outlark.audio.sound import for_decoder
from outlark.commands.figures import save_figure
from outlark.files.aside import written_aside
from outlark.paper.figure_1 import figure_1
from outlark.paper.methods import method
from outlark.paper.protocol import Protocol, draw
from outlark.paper.results import Results
from outlark.paper.run import fitted
from outlark.paper.tables import is_synthetic, table_1, table_2, table_classes, table_tests
from outlark.plain_text import number_of
from outlark.version import __version__

#: The method as published, whose Table 1 is shown beside ours.
PUBLISHED = "mddkm-paper"
CLIP = "test_clip.wav"
SYNTHETIC = (
    "The recordings of the paper are not public. These notes are synthetic, and results on them are not the paper's "
    "results."
)
FIGURE = '<img alt="Spectrogram, scores and decisions" src="data:image/png;base64,%s">\n'
PAPER_LINK = "https://arxiv.org/abs/2108.12857"
STYLE = """\
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; font-family: sans-serif; line-height: 1.5; }
table { border-collapse: collapse; margin: 1rem 0; } caption { text-align: left; font-weight: bold; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: left; }
.number { text-align: right; white-space: pre; } img { max-width: 100%; }
"""


def write(folder: Path, results: Results, *, command: str | None = None) -> dict[str, str]:
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
    detectors = {method(name).title: fitted(method(name), drawn) for name in shown}
    save_figure(figure_1(drawn, detectors), files["Figure 1"])
    with written_aside(files["report"]) as aside:
        text = report(results, figure_1=files["Figure 1"].read_bytes(), command=command)
        aside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    with written_aside(files["test clip"]) as aside:
        soundfile.write(
            for_decoder(aside), drawn.audio.astype(np.float32), drawn.sample_rate, format="WAV", subtype="PCM_16"
        )
    annotations = [Annotation(start_s=n.start_s, end_s=n.end_s, label=n.label, recording=CLIP) for n in drawn.truth]
    write_annotations(files["its notes"], annotations, format="raven")
    return {what: str(path) for what, path in files.items()}


def report(results: Results, *, figure_1: bytes = b"", command: str | None = None) -> str:
    """An experiment as one HTML page. The same results, on the same machine, give the same bytes.

    `figure_1` is a PNG image; `command` is what to type to repeat the experiment.
    """
    ours = results.ours
    names = [one.name for one in results.methods]
    confused = [ours, *([PUBLISHED] if PUBLISHED in names and ours != PUBLISHED else [])]
    sections = {
        "What was done": _what(results),
        "F scores": table_2(results).html(),
        "Paired tests": table_tests(results, ours).html() if len(names) > 1 else "",
        "Confusion matrices": "".join(table_1(results, name, results.seeds[0]).html() for name in confused),
        "An excerpt of the test clip": FIGURE % base64.b64encode(figure_1).decode("ascii") if figure_1 else "",
        "How to repeat it": _repeated(results, command),
    }
    synthetic = is_synthetic(results.data)
    title = html.escape(f"Experiment on {'synthetic notes' if synthetic else results.data.name}")
    warning = f"<p><strong>{html.escape(SYNTHETIC)}</strong></p>\n" if synthetic else ""
    body = "".join(f"<h2>{name}</h2>\n{text}" for name, text in sections.items() if text)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{warning}{body}</body>\n</html>\n"
    )


def _what(results: Results) -> str:
    data, changes = results.data, changes_in_words(results.protocol)
    return (
        f'<p>The experiment of Sec. 4 of <a href="{PAPER_LINK}">the paper</a> on {len(data.notes)} notes of '
        f"{len(data.counts)} classes, repeated for {number_of(len(results.seeds), 'seed')}.</p>\n"
        f"<p>{html.escape(' '.join(_protocol_in_words(results)))}</p>\n"
        + (f"<p>Unlike the paper:</p>\n{_list(changes)}" if changes else "<p>This is the paper's protocol.</p>\n")
        + table_classes(data).html()
        + (f"<p>Remarks on the data:</p>\n{_list(data.remarks)}" if data.remarks else "")
    )


def _protocol_in_words(results: Results) -> Iterable[str]:
    protocol, data = results.protocol, results.data
    known = f"{protocol.n_known} classes, drawn anew for each seed,"
    if data.known is not None:
        known = f"the {len(data.known)} known classes ({', '.join(data.known)})"
    yield (
        f"For each seed, every method learns from the same {number_of(protocol.n_train, 'note')} of each of {known} "
        "drawn at random."
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
        "n_known": f"{protocol.n_known} known classes where the data set does not name them",
        "n_unknown": f"{protocol.n_unknown} unknown classes where the data set does not name the known ones",
        "max_test": f"at most {protocol.max_test} test notes of each class",
    }
    return [said[name] for name in protocol.changes()]


def _repeated(results: Results, command: str | None) -> str:
    used = [f"outlark {__version__}", f"Python {platform.python_version()}"]
    used += [f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
    seeds = ", ".join(map(str, results.seeds))
    typed = f"<pre>{html.escape(command)}</pre>\n" if command else ""
    made_with = html.escape(f"Made with {', '.join(used)} on {platform.platform()}; seeds {seeds}.")
    return f"{typed}<p>{made_with}</p>\n"


def _list(items: Iterable[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{html.escape(item)}</li>\n" for item in items) + "</ul>\n"
