"""Figure 1: the right notes and scores, nothing that overlaps, the same each time."""

import io
from dataclasses import replace

import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex

from outlark.commands.figures import CLASS_COLOURS
from outlark.data.synthetic import KNOWN_CLASSES
from outlark.paper.experiment.dataset import Protocol, draw
from outlark.paper.experiment.figure_1 import chosen_excerpt, figure_1
from outlark.segments import Segment
from tests.commands.test_plot import overlapping
from tests.paper.experiment.example_results import DETECTORS, fitted, renamed, synthetic, without_known


def png(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


@pytest.fixture(scope="module")
def drawn():
    return draw(synthetic(), Protocol(), seed=1)


@pytest.fixture(scope="module")
def detectors(drawn):
    return {one.title: fitted(one, drawn) for one in DETECTORS}


@pytest.fixture(scope="module")
def picture(drawn, detectors):
    return figure_1(drawn, detectors)


@pytest.mark.parametrize("seed", range(1, 9))
def test_the_stretch_has_all_known_classes_and_several_others(seed):
    drawn = draw(synthetic(), Protocol(), seed)
    notes = chosen_excerpt(drawn)
    assert 9 <= len(notes) <= 11
    labels = {note.label for note in notes}
    assert set(KNOWN_CLASSES) <= labels
    assert len(labels - set(KNOWN_CLASSES)) >= 3
    at = drawn.truth.index(notes[0])
    assert notes == drawn.truth[at : at + len(notes)]
    assert notes == chosen_excerpt(draw(synthetic(), Protocol(), seed))


def test_a_stretch_with_more_unknown_classes_is_better(drawn):
    labels = ["tuti-D", "tuti-F", "cach-Z", *["x"] * 8, "tuti-D", "tuti-F", "cach-Z", *"xyzwxyz"]
    truth = [Segment(start=100 * i, end=100 * (i + 1), sample_rate=1000, label=name) for i, name in enumerate(labels)]
    notes = chosen_excerpt(replace(drawn, truth=truth))
    assert {note.label for note in notes} == {*KNOWN_CLASSES, *"xyzw"}


def test_panels_have_units_and_titles(picture, drawn, detectors):
    spectrogram, *scores, lanes = picture.axes[:5]
    assert spectrogram.get_ylabel() == "frequency, kHz"
    assert [axis.get_title(loc="left") for axis in scores] == [f"(b) scores: {title}" for title in detectors]
    assert lanes.get_xlabel() == "time in the test clip, s"
    assert [tick.get_text() for tick in lanes.get_yticklabels()] == ["truth", *detectors]
    assert spectrogram.get_title(loc="left") == f"(a) {len(chosen_excerpt(drawn))} of the 50 notes of the test clip"


def test_lanes_show_the_truth_and_what_each_method_found(picture, drawn, detectors):
    shown = chosen_excerpt(drawn)
    start_s, end_s = shown[0].start_s, shown[-1].end_s
    lanes = picture.axes[4]
    colours = dict(zip(drawn.known, CLASS_COLOURS, strict=False))
    expected = {(0, round(s.start_s, 4), round(s.end_s, 4), colours.get(s.label, "#d8d8d8")) for s in shown}
    for row, detector in enumerate(detectors.values(), start=1):
        for s in detector.detect(drawn.audio, drawn.sample_rate):
            left, right = max(s.start_s, start_s), min(s.end_s, end_s)
            if left < right and s.verdict != "silence":
                colour = "#ffffff" if s.verdict == "ambiguous" else colours.get(s.label, "#d8d8d8")
                expected.add((row, round(left, 4), round(right, 4), colour))
    found = set()
    for bar in lanes.collections:
        for path in bar.get_paths():
            box = path.get_extents()
            found.add((int(box.y0), round(box.x0, 4), round(box.x1, 4), to_hex(bar.get_facecolor()[0])))
    assert found == expected


def test_names_fit_into_their_bars(drawn):
    long = {"tuti-F": "Baeolophus bicolor, the note F of a long name", "tuti-D": r"_$\frac$", "cach-E": "<b>&" * 9}
    other = draw(renamed(long), Protocol(), seed=1)
    figure = figure_1(other, {"whole $notes$": fitted(DETECTORS[1], other)})
    assert overlapping(figure) == []
    lanes = figure.axes[2]
    bars = [path.get_extents().transformed(lanes.transData) for bar in lanes.collections for path in bar.get_paths()]
    for text in lanes.texts:
        if text.get_visible():
            box = text.get_window_extent()
            assert any(
                bar.x0 <= box.x0 and box.x1 <= bar.x1 and bar.ymin <= box.y0 and box.y1 <= bar.ymax for bar in bars
            )
    assert any(text.get_text().endswith("…") for text in lanes.texts)
    assert any(text.get_text() == r"_$\frac$" for text in lanes.texts)


def test_thresholds_of_each_method_are_drawn(picture, detectors):
    for axis, title in zip(picture.axes[1:4], detectors, strict=True):
        dotted = sorted({float(line.get_ydata()[0]) for line in axis.lines if line.get_linestyle() == ":"})
        assert dotted == sorted(set(detectors[title].layout_.thresholds.tolist()))


def test_nothing_overlaps(picture):
    assert overlapping(picture) == []


def test_the_same_picture_each_time_and_none_is_left_open(picture, drawn, detectors):
    before = pyplot.get_fignums()
    assert png(picture) == png(figure_1(drawn, detectors))
    assert pyplot.get_fignums() == before


def test_known_classes_of_a_seed_are_drawn():
    drawn = draw(without_known(), Protocol(n_known=2), seed=3)
    figure = figure_1(drawn, {"ours": fitted(DETECTORS[1], drawn)})
    names = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert names == list(drawn.known)
