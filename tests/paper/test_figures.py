"""Pictures of the experiment: right numbers, nothing that overlaps, the same each time."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex

from outlark.commands.plot.panels import COLOURS
from outlark.data.synthetic import KNOWN
from outlark.errors import InputError
from outlark.paper.figures import bars, chosen_excerpt, curves, figure_1
from outlark.paper.methods import METHODS
from outlark.paper.protocol import Protocol, draw
from outlark.paper.run import Sweep
from outlark.segments import Segment
from tests.commands.test_plot import overlapping
from tests.paper.example_results import DETECTORS, fitted, renamed, run, synthetic, with_mistakes, without_known

ALL = [(one.name, one.title) for one in METHODS.values()]


def png(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def swept(values, results, name="snr"):
    return Sweep(name=name, values=values, results=tuple(results))


def named(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


# --- Figure 1 -------------------------------------------------------------------------------------------------------


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
    assert set(KNOWN) <= labels
    assert len(labels - set(KNOWN)) >= 3
    at = drawn.truth.index(notes[0])
    assert notes == drawn.truth[at : at + len(notes)]
    assert notes == chosen_excerpt(draw(synthetic(), Protocol(), seed))


def test_a_stretch_with_more_unknown_classes_is_better(drawn):
    labels = ["tuti-D", "tuti-F", "cach-Z", *["x"] * 8, "tuti-D", "tuti-F", "cach-Z", *"xyzwxyz"]
    truth = [Segment(start=100 * i, end=100 * (i + 1), sample_rate=1000, label=name) for i, name in enumerate(labels)]
    notes = chosen_excerpt(replace(drawn, truth=truth))
    assert {note.label for note in notes} == {*KNOWN, *"xyzw"}


def test_a_short_clip_is_shown_whole(drawn):
    short = replace(drawn, truth=drawn.truth[:4])
    assert chosen_excerpt(short) == drawn.truth[:4]


def test_panels_have_units_and_titles(picture, drawn, detectors):
    spectrogram, *scores, lanes = picture.axes[:4]
    assert spectrogram.get_ylabel() == "frequency, kHz"
    assert [axis.get_title(loc="left") for axis in scores] == ["(b) scores: literal", "(b) scores: whole notes"]
    assert lanes.get_xlabel() == "time in the test clip, s"
    assert [tick.get_text() for tick in lanes.get_yticklabels()] == ["truth", *detectors]
    assert spectrogram.get_title(loc="left") == f"(a) {len(chosen_excerpt(drawn))} of the 50 notes of the test clip"


def test_lanes_show_the_truth_and_what_each_method_found(picture, drawn, detectors):
    shown = chosen_excerpt(drawn)
    start_s, end_s = shown[0].start_s, shown[-1].end_s
    lanes = picture.axes[3]
    colours = dict(zip(drawn.known, COLOURS, strict=False))
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
    for axis, title in zip(picture.axes[1:3], list(detectors)[:2], strict=True):
        dotted = sorted({float(line.get_ydata()[0]) for line in axis.lines if line.get_linestyle() == ":"})
        assert dotted == sorted(set(detectors[title].layout_.thresholds.tolist()))


def test_nothing_overlaps_and_no_global_state_is_touched(picture):
    assert overlapping(picture) == []
    assert pyplot.get_fignums() == []


def test_the_same_picture_each_time(picture, drawn, detectors):
    assert png(picture) == png(figure_1(drawn, detectors))


def test_known_classes_of_a_seed_are_drawn():
    drawn = draw(without_known(), Protocol(n_known=2), seed=3)
    figure = figure_1(drawn, {"ours": fitted(DETECTORS[1], drawn)})
    names = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert names == list(drawn.known)


def test_no_detector_is_an_error(drawn):
    with pytest.raises(InputError, match="no detectors"):
        figure_1(drawn, {})


# --- Table 2 as dots ------------------------------------------------------------------------------------------------


def test_dots_are_the_means_and_the_seeds():
    results, _ = run()
    figure = bars(results)
    for axis, level in zip(figure.axes, ("window", "note"), strict=True):
        names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
        for row, name in enumerate(names):
            (method,) = [one.name for one in results.methods if one.title == name]
            values = [one.overall(level) for one in results.outcomes if one.method == method]
            faint = [
                line for line in axis.lines if line.get_marker() == "." and abs(np.mean(line.get_ydata()) - row) < 0.4
            ]
            np.testing.assert_allclose(np.concatenate([line.get_xdata() for line in faint]), values)
            (mean,) = [line for line in axis.lines if line.get_marker() == "o" and line.get_ydata()[0] == row]
            assert mean.get_xdata()[0] == pytest.approx(np.mean(values))
            (whisker,) = [c.get_segments()[0] for c in axis.collections if c.get_segments()[0][0, 1] == row]
            assert np.diff(whisker[:, 0])[0] == pytest.approx(2 * np.std(values, ddof=1) / np.sqrt(3))
    means = [
        np.mean([one.overall("window") for one in results.outcomes if one.method == m.name]) for m in results.methods
    ]
    best = results.methods[int(np.argmax(means))].title
    assert figure.axes[0].get_yticklabels()[-1].get_text() == best


@pytest.mark.parametrize("seeds", [(1, 2), (4,)])
def test_dots_of_all_methods_do_not_overlap(seeds):
    assert overlapping(bars(with_mistakes(synthetic(), seeds=seeds, methods=ALL))) == []


# --- curves ---------------------------------------------------------------------------------------------------------


def test_curves_hold_the_means_with_bands():
    at = [with_mistakes(synthetic(), Protocol(gap_s=gap, max_test=2)) for gap in (0.0, 0.1, 0.2)]
    figure = curves(swept((0.0, 0.1, None), at))
    for axis, level in zip(figure.axes, ("window", "note"), strict=True):
        for line, method in zip(axis.lines, at[0].methods, strict=True):
            expected = [np.mean([o.overall(level) for o in one.outcomes if o.method == method.name]) for one in at]
            np.testing.assert_allclose(line.get_ydata(), expected)
        for band, method in zip(axis.collections, at[0].methods, strict=True):
            spread = [np.std([o.overall(level) for o in one.outcomes if o.method == method.name], ddof=1) for one in at]
            box = band.get_paths()[0].vertices
            assert np.ptp(box[box[:, 0] == 0.0, 1]) == pytest.approx(2 * spread[0] / np.sqrt(2))
    assert [tick.get_text() for tick in figure.axes[1].get_xticklabels()] == ["0", "0.1", "no noise"]
    assert figure.axes[1].get_xlabel() == "signal-to-noise ratio, dB"
    assert named(figure) == [one.title for one in at[0].methods]


@pytest.mark.parametrize("seeds", [(1, 2), (3,)])
def test_fourteen_curves_have_names_that_do_not_overlap(seeds):
    one = with_mistakes(synthetic(), seeds=seeds, methods=ALL)
    figure = curves(swept((1, 2), [one, one], name="shots"))
    assert overlapping(figure) == []
    assert len(named(figure)) == len(ALL)
    figure.canvas.draw()
    for text in figure.legends[0].get_texts():
        box = text.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert 0 <= box.y0 < box.y1 <= figure.bbox.y1
    styles = {(line.get_color(), line.get_marker()) for line in figure.axes[0].lines}
    assert len(styles) == len(ALL)


def test_a_long_name_leaves_room_for_the_curves():
    one = with_mistakes(synthetic(), methods=[("mddkm", "long " * 60)])
    for figure in (curves(swept((1, 2), [one, one])), bars(one)):
        figure.canvas.draw()
        assert sum(axis.bbox.width for axis in figure.axes[:2]) > 0.5 * figure.bbox.width
