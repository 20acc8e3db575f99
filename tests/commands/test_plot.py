"""The picture of a stretch: the same segments as in the whole, right numbers, nothing that overlaps, the same bytes."""

import itertools
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from matplotlib.axis import Axis
from matplotlib.text import Text

from outlark import ArrayFrontEnd, HLDSFrontEnd, NoteDetector
from outlark.audio.header import RecorderTime
from outlark.audio.recording import ArrayRecording, Recording
from outlark.commands import figures, plot
from outlark.commands.panels import clock_marks, clock_text, curves, level_range, spectrogram, thinned
from outlark.commands.plot import with_surroundings
from outlark.data.synthetic import KNOWN_CLASSES, SAMPLE_RATE, UNKNOWN_CLASSES, concatenate, notes
from outlark.detection.scores import ScoreBlock
from outlark.errors import AudioError, InputError
from outlark.paper.detector import FrameDetector
from outlark.segments import SILENCE

CLASSES = (*KNOWN_CLASSES, *UNKNOWN_CLASSES)


def trained(counts=None, front_end=None, rename=None):
    clips = notes(seed=0, counts=counts or dict.fromkeys(KNOWN_CLASSES, 3))
    labels = [(rename or {}).get(n.label, n.label) for n in clips]
    detector = NoteDetector() if front_end is None else FrameDetector(front_end)
    return detector.fit([n.samples for n in clips], labels, SAMPLE_RATE)


@pytest.fixture(scope="module")
def detector():
    return trained()


@pytest.fixture(scope="module")
def night():
    """50 s with a note about every half second, at two loudnesses of the background."""
    rng = np.random.default_rng(1)
    played = notes(seed=5, counts=dict.fromkeys(CLASSES, 12))
    audio, truth = concatenate([played[i] for i in rng.permutation(len(played))], gap_s=0.4, edge_s=0.3, rng=rng)
    audio += rng.normal(size=len(audio)) * np.where(np.arange(len(audio)) < 30 * SAMPLE_RATE, 1e-3, 4e-3)
    return audio / np.abs(audio).max(), truth


@pytest.fixture(scope="module")
def file(night, tmp_path_factory):
    path = tmp_path_factory.mktemp("night") / "SITE$7$_20231024_123456.wav"
    soundfile.write(path, np.stack([night[0], 0.5 * night[0]], axis=1), SAMPLE_RATE)
    return path


def bars(picture):
    """(lane, start, end) of every bar, from the picture itself; the lanes by name."""
    lanes = picture.axes[2]
    names = [tick.get_text() for tick in lanes.get_yticklabels()]
    found = []
    for collection in lanes.collections:
        for path in collection.get_paths():
            box = path.get_extents()
            found.append((names[len(names) - 1 - int(box.y0)], box.x0, box.x1, box.height))
    return found


# --- the same as in the whole recording -----------------------------------------------------------------------------


@pytest.mark.parametrize("front_end", [None, HLDSFrontEnd()], ids=["notes", "hlds"])
def test_a_stretch_has_the_scores_and_segments_of_the_whole(night, front_end, detector):
    fitted = detector if front_end is None else trained(front_end=front_end)
    sound, hop = ArrayRecording(night[0], SAMPLE_RATE), fitted.layout_.hop_samples
    whole = fitted.scores(night[0], SAMPLE_RATE)
    for start_s, end_s in ((0.0, 3.0), (37.5, 41.2), (42.123, 46.0)):
        part = with_surroundings(sound, start_s, end_s, fitted)
        assert part.start % hop == 0
        scores, offset = fitted.scores(part.samples, SAMPLE_RATE), part.start // hop
        first, last = round(start_s * SAMPLE_RATE) // hop, round(end_s * SAMPLE_RATE) // hop
        # rounding differs with the block and with the processor (running sums start elsewhere: 1e-8 was seen); the
        # recursive filter has forgotten what lies before
        ours = scores.block.values[first - offset : last - offset]
        np.testing.assert_allclose(ours, whole.block.values[first:last], rtol=1e-6)
        shifted = {(s.start + part.start, s.end + part.start, s.label) for s in fitted.decide(scores)}
        segments = [s for s in fitted.decide(whole) if s.start_s > start_s and s.end_s < end_s]
        inside = {(s.start, s.end, s.label) for s in segments if s.verdict != SILENCE}
        assert inside
        assert inside <= shifted


def test_other_rates_keep_the_time(night, tmp_path, detector):
    import soxr

    path = tmp_path / "a.flac"
    soundfile.write(path, soxr.resample(night[0], SAMPLE_RATE, 48000), 48000)
    known = [bar for bar in bars(plot.draw_excerpt(detector, path, 35.0, 45.0)) if bar[0] in KNOWN_CLASSES]
    expected = [s for s in detector.detect(path) if s.label is not None and s.start_s < 45.0 and s.end_s > 35.0]
    assert len(known) == len(expected) > 3
    for (name, start_s, end_s, _), segment in zip(known, expected, strict=True):
        assert name == segment.label
        assert start_s == pytest.approx(segment.start_s, abs=0.004)  # two frames
        assert end_s == pytest.approx(segment.end_s, abs=0.004)


def test_only_the_stretch_is_read(file, detector, monkeypatch):
    read = []
    part = Recording.part
    monkeypatch.setattr(Recording, "part", lambda self, a, b: read.append(b - max(0, a)) or part(self, a, b))
    plot.draw_excerpt(detector, file, 40.0, 41.0)
    assert max(read) < 30 * SAMPLE_RATE


# --- what is drawn --------------------------------------------------------------------------------------------------


def test_the_bars_are_the_segments_and_the_truth(night, detector):
    audio, truth = night
    picture = plot.draw_excerpt(detector, audio, 10.0, 20.0, sample_rate=SAMPLE_RATE, truth=truth)
    found = bars(picture)
    annotations = {(s.label, round(s.start_s, 6)) for s in truth if s.start_s < 20.0 and s.end_s >= 10.0}
    assert {(name, round(start, 6)) for name, start, _, height in found if height < 0.2} == annotations
    segments = [s for s in detector.detect(audio, SAMPLE_RATE) if s.start_s < 20.0 and s.end_s > 10.0]
    drawn = sorted((start, name) for name, start, _, height in found if height > 0.2)
    expected = sorted((s.start_s, s.label or "unknown") for s in segments if s.verdict != SILENCE)
    assert [name for _, name in drawn] == [name for _, name in expected]
    np.testing.assert_allclose([start for start, _ in drawn], [start for start, _ in expected])
    lanes = [tick.get_text() for tick in picture.axes[2].get_yticklabels()]
    others = {label for label, _ in annotations} - set(KNOWN_CLASSES)
    assert lanes == [*sorted(KNOWN_CLASSES), *sorted(others), "unknown"]


def test_curves_winner_and_thresholds(night, detector):
    scores = detector.scores(night[0], SAMPLE_RATE)
    picture = plot.draw_excerpt(detector, night[0], 10.0, 12.0, sample_rate=SAMPLE_RATE)
    lines = picture.axes[1].get_lines()
    assert [line.get_linestyle() for line in lines] == ["-", "-", ":"] * 3
    np.testing.assert_allclose([line.get_ydata()[0] for line in lines[2::3]], detector.layout_.thresholds)
    inside = (scores.times_s > 10.0) & (scores.times_s < 12.0)
    values = curves(scores.block)[inside]
    drawn = np.nan_to_num(np.stack([line.get_ydata() for line in lines[::3]], axis=1))
    assert drawn.max() == pytest.approx(values.max())
    bold = np.nan_to_num(np.stack([line.get_ydata() for line in lines[1::3]], axis=1))
    np.testing.assert_array_equal(bold.max(axis=1), drawn.max(axis=1))
    assert (bold > 0).sum() < 0.6 * (drawn > 0).sum()
    assert lines[1].get_linewidth() > 2 * lines[0].get_linewidth()
    assert "current note" in picture.axes[1].get_ylabel()


def test_frames_say_so(night):
    picture = plot.draw_excerpt(trained(front_end=HLDSFrontEnd()), night[0], 10.0, 12.0, sample_rate=SAMPLE_RATE)
    assert picture.axes[1].get_ylabel() == "score of the frame"
    assert "kHz" in picture.axes[0].get_ylabel()
    assert picture.axes[2].get_xlabel() == "time in the recording, s"


def test_the_spectrogram_is_in_its_place():
    rate, at_s, hz = 22050, 1.3, 5000
    audio = np.random.default_rng(0).normal(size=2 * rate) * 1e-4
    burst = slice(round(at_s * rate), round((at_s + 0.1) * rate))
    audio[burst] += 0.5 * np.sin(2 * np.pi * hz * np.arange(round(0.1 * rate)) / rate)
    image = plot.draw_excerpt(trained({"tuti-F": 2}), audio, 1.0, 1.9, sample_rate=rate).axes[0].images[0]
    levels = np.asarray(image.get_array())
    left, right, low, high = image.get_extent()
    row, column = np.unravel_index(levels.argmax(), levels.shape)
    assert left + (column + 0.5) / levels.shape[1] * (right - left) == pytest.approx(at_s + 0.05, abs=0.05)
    assert low + (row + 0.5) / levels.shape[0] * (high - low) == pytest.approx(hz / 1000, abs=0.05)
    assert levels.max() == pytest.approx(-6.0, abs=0.5)


def test_the_spectrogram_begins_with_the_recording():
    audio = np.zeros(22050)
    audio[1102] = 1.0  # at .05 s
    image = plot.draw_excerpt(trained({"tuti-F": 2}), audio, 0.0, 0.2, sample_rate=22050).axes[0].images[0]
    loudest = np.asarray(image.get_array()).sum(axis=0)
    left, right, *_ = image.get_extent()
    middle = (np.flatnonzero(loudest > loudest.max() - 1e-6).mean() + 0.5) / len(loudest)
    assert left + middle * (right - left) == pytest.approx(0.05, abs=0.002)


def test_the_clock_is_shown_where_it_is_known(file, detector, tmp_path):
    picture = plot.draw_excerpt(detector, file, 3.0, 9.0)
    assert picture.axes[0].get_title(loc="left") == "SITE$7$_20231024_123456.wav"
    (clock,) = [axis for axis in picture.axes[0].child_axes if axis.get_xlabel()]
    assert clock.get_xlabel() == "2023-10-24, time zone unknown, from the file name"
    shown = {tick.get_text(): x for tick, x in zip(clock.get_xticklabels(), clock.get_xticks(), strict=True)}
    assert shown["12:35:00"] == pytest.approx(4.0)
    plain = tmp_path / "plain.wav"
    plain.write_bytes(file.read_bytes())
    assert not [axis for axis in plot.draw_excerpt(detector, plain, 3.0, 9.0).axes[0].child_axes if axis.get_xlabel()]


def test_marks_of_the_clock():
    clock = RecorderTime(began=datetime(2023, 10, 24, 23, 59, 50, 250_000), source="guano", expansion=10.0)
    step_s, marks_s = clock_marks(clock, 0.0, 300.0)
    assert step_s == 5
    expected = ["23:59:55", "00:00:00", "00:00:05", "00:00:10", "00:00:15", "00:00:20"]
    assert [clock_text(clock.at(annotation), 0) for annotation in marks_s] == expected
    assert marks_s[0] == pytest.approx(47.5)


# --- any input ------------------------------------------------------------------------------------------------------


def overlapping(picture):
    """Pairs of texts that lie upon each other, as drawn."""
    picture.canvas.draw()
    renderer = picture.canvas.get_renderer()
    out_of_view = set()
    for axis in picture.findobj(match=Axis):
        low, high = sorted(axis.get_view_interval())
        out_of_view |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    texts = [text for text in picture.findobj(match=Text) if text.get_text() and text.get_visible()]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t not in out_of_view]
    pairs = itertools.combinations(boxes, 2)
    return [(one, other) for (one, a), (other, b) in pairs if a.padded(-0.5).overlaps(b.padded(-0.5))]


@pytest.mark.parametrize(
    ("counts", "start_s", "end_s"),
    [({"cach-Z": 2}, 0.0, 2.0), (dict.fromkeys(KNOWN_CLASSES, 2), 0.0, 50.0), (dict.fromkeys(CLASSES, 2), 30.0, 30.03)],
)
def test_no_text_lies_upon_another(file, night, counts, start_s, end_s):
    names = {"cach-Z": "Poecile carolinensis, a note with a name that is long", "tuti-D": r"_$\frac$ = 'D'"}
    fitted = trained(counts, rename=names)
    picture = plot.draw_excerpt(fitted, file, start_s, end_s, truth=night[1])
    assert overlapping(picture) == []


def test_many_classes_are_told_apart():
    rng = np.random.default_rng(0)
    clips, labels = [], []
    for c in range(15):
        for _ in range(2):
            t = np.arange(2400) / 24000
            clips.append(0.3 * np.sin(2 * np.pi * (1500 + 400 * c) * t) + 1e-3 * rng.normal(size=2400))
            labels.append(f"tone {c:02}")
    fitted = NoteDetector().fit(clips, labels, 24000)
    audio = np.concatenate([np.concatenate([1e-3 * rng.normal(size=4800), clip]) for clip in clips[::2]][3:5])
    picture = plot.draw_excerpt(fitted, audio, sample_rate=24000)
    lines = picture.axes[1].get_lines()[::3]
    styles = {(line.get_color(), line.get_linestyle(), str(line._unscaled_dash_pattern)) for line in lines}
    assert len(lines) == len(styles) == 12
    texts = [text.get_text() for text in picture.axes[1].get_legend().get_texts()]
    assert {"tone 03", "tone 04"} <= set(texts)
    assert "3 lower ones hidden" in picture.axes[1].get_legend().get_title().get_text()
    assert overlapping(picture) == []


def test_an_ambiguous_note_is_in_two_lanes():
    clips = notes(counts={"tuti-F": 6})
    twins = NoteDetector().fit([n.samples for n in clips], ["A", "B"] * 3, SAMPLE_RATE)
    audio, _ = concatenate(notes(seed=1, counts={"tuti-F": 1}), edge_s=0.5, rng=np.random.default_rng(0))
    (segment,) = [s for s in twins.detect(audio, SAMPLE_RATE) if s.label]
    assert segment.verdict == "ambiguous"
    assert {name for name, *_ in bars(plot.draw_excerpt(twins, audio, sample_rate=SAMPLE_RATE))} == {"A", "B"}


@pytest.mark.parametrize("kind", ["silence", "one sample", "noise", "constant"])
def test_sounds_without_notes(detector, kind, tmp_path):
    audio = {
        "silence": np.zeros(3 * SAMPLE_RATE),
        "one sample": np.full(1, 0.5),
        "noise": np.random.default_rng(0).normal(size=SAMPLE_RATE) * 0.1,
        "constant": np.full(SAMPLE_RATE, 0.9),
    }[kind]
    picture = plot.draw_excerpt(detector, audio, sample_rate=SAMPLE_RATE)
    figures.save_figure(picture, tmp_path / "a.png")
    assert not [name for name, *_ in bars(picture) if name in KNOWN_CLASSES]


def test_odd_marks(detector, night):
    truth = [
        SimpleNamespace(start_s=1.0, end_s=1.0, label="point"),
        SimpleNamespace(start_s=1.5, end_s=1.7, label=None),
        SimpleNamespace(start_s=0.0, end_s=9.0, label="all", verdict=SILENCE),
        SimpleNamespace(start_s=900.0, end_s=901.0, label="far away"),
        SimpleNamespace(start_s=1.2, end_s=1.3, label=7),
        *[SimpleNamespace(start_s=0.1 * i, end_s=0.1 * i + 0.05, label=f"x{i}") for i in range(20)],
    ]
    picture = plot.draw_excerpt(detector, night[0], 0.0, 3.0, sample_rate=SAMPLE_RATE, truth=truth)
    lanes = [tick.get_text() for tick in picture.axes[2].get_yticklabels()]
    assert len(lanes) == 3 + 8 + 1
    assert "far away" not in lanes
    assert ("unknown", 1.5, 1.7) in [
        (name, round(a, 6), round(b, 6)) for name, a, b, height in bars(picture) if height < 0.2
    ]


@pytest.mark.parametrize(
    ("start_s", "end_s", "message"),
    [
        (-1.0, 2.0, r"start_s=-1\.0 must be a number of seconds"),
        (float("nan"), 2.0, "start_s=nan must be"),
        ("1", 2.0, "start_s='1' must be"),
        (1.0, True, "end_s=True must be"),
        (9e9, None, r"--start 9e\+09, but the recording is \d+\.\d+ s long"),
        (5.0, 5.0, "is not after --start"),
        (5.0, 4.0, "is not after --start"),
    ],
)
def test_times_that_make_no_sense(detector, file, start_s, end_s, message):
    with pytest.raises(InputError, match=message):
        plot.draw_excerpt(detector, file, start_s, end_s)


def test_hours_are_refused(detector):
    with pytest.raises(InputError, match="at most 3600 s"):
        plot.draw_excerpt(detector, np.zeros(100 * 3601), 0.0, 3601.0, sample_rate=100)


def test_without_times_it_is_the_first_minute(detector, file, night):
    end_s = len(night[0]) / SAMPLE_RATE
    assert plot.draw_excerpt(detector, file, 45.0).axes[0].get_xlim() == (45.0, pytest.approx(end_s))
    assert plot.draw_excerpt(detector, np.zeros(99 * SAMPLE_RATE), sample_rate=SAMPLE_RATE).axes[0].get_xlim() == (
        0,
        60,
    )


def test_what_cannot_be_drawn(detector, tmp_path):
    with pytest.raises(AudioError, match=r"nothing\.wav does not exist"):
        plot.draw_excerpt(detector, tmp_path / "nothing.wav")
    with pytest.raises(InputError, match="give its sample_rate"):
        plot.draw_excerpt(detector, np.zeros(10))
    series = FrameDetector(ArrayFrontEnd()).fit([np.random.default_rng(0).normal(size=(400, 2))] * 2, ["a", "a"], 100)
    with pytest.raises(InputError, match="only sound can be plotted"):
        plot.draw_excerpt(series, np.zeros((100, 2)), sample_rate=100)
    holes = tmp_path / "holes.wav"
    soundfile.write(holes, np.where(np.arange(9000) == 8000, np.nan, 0.0), 8000, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"holes\.wav: sample 8000, at 1\.000 s"):
        plot.draw_excerpt(detector, holes)


# --- writing --------------------------------------------------------------------------------------------------------


def test_the_same_picture_gives_the_same_bytes(detector, file, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        picture = plot.draw_excerpt(detector, file, 0.5, 1.5)
        for name in ("x.SVG", "x.pdf"):
            figures.save_figure(picture, tmp_path / folder / name)
    for name, start in (("x.SVG", b"<?xml"), ("x.pdf", b"%PDF")):
        written = (tmp_path / "a" / name).read_bytes()
        assert written == (tmp_path / "b" / name).read_bytes()
        assert written.startswith(start)
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["x.SVG", "x.pdf"]


def test_the_taste_of_the_user_changes_nothing(detector, file, tmp_path):
    import matplotlib

    figures.save_figure(plot.draw_excerpt(detector, file, 10.0, 11.0), tmp_path / "a.png")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.dpi": 10, "lines.linewidth": 9}):
        figures.save_figure(plot.draw_excerpt(detector, file, 10.0, 11.0), tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_that_cannot_be_written(detector, file, tmp_path):
    picture = plot.draw_excerpt(detector, file, 10.0, 10.5)
    with pytest.raises(InputError, match=r"saved as \.png, \.svg, \.pdf"):
        figures.save_figure(picture, tmp_path / "a.jpeg")
    with pytest.raises(InputError, match="does not exist"):
        figures.save_figure(picture, tmp_path / "no" / "a.png")
    (tmp_path / "b.png").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        figures.save_figure(picture, tmp_path / "b.png")
    (tmp_path / "old.png").write_bytes(b"old")
    picture.axes[0].text(0, 0, r"$\broken$")
    with pytest.raises(ValueError, match="broken"):
        figures.save_figure(picture, tmp_path / "old.png")
    assert (tmp_path / "old.png").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.png", "old.png"]


# --- numbers --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_moment_has_the_best_note_that_is_sounding(n, classes, random):
    rng = np.random.default_rng(random.randrange(10**6))
    values = rng.random((n, classes)) * (rng.random((n, classes)) < 0.5)
    lengths = rng.integers(1, 9, size=(n, classes))
    expected = np.zeros((n, classes))
    for start in range(n):
        for c in range(classes):
            sounding = slice(start, start + lengths[start, c])
            expected[sounding, c] = np.maximum(expected[sounding, c], values[start, c])
    np.testing.assert_array_equal(curves(ScoreBlock(values, np.zeros(n), lengths)), expected)


@given(
    arrays.arrays(float, st.tuples(st.integers(1, 50), st.integers(1, 3)), elements=st.floats(0, 9)), st.integers(1, 9)
)
def test_thinning_keeps_every_peak(values, most):
    fewer, step = thinned(values, most)
    assert len(fewer) <= most
    assert len(fewer) == -(-len(values) // step)
    for i, row in enumerate(fewer):
        np.testing.assert_array_equal(row, values[i * step : (i + 1) * step].max(axis=0))


@given(st.integers(1, 5000), st.integers(1, 60))
def test_the_spectrogram_covers_the_stretch(n_samples, most):
    levels, first, last = spectrogram(np.zeros(n_samples + 64), 64, n_samples, most)
    assert levels.shape[0] == 33
    assert 1 <= levels.shape[1] <= max(most, 1)
    assert first <= 0
    assert last >= n_samples
    assert (levels == -130.0).all()
    low, high = level_range(levels)
    assert low < high


@pytest.mark.parametrize("channel", ["mix", 0, 1])
def test_parts_of_files_are_those_of_the_whole(tmp_path, channel, rng):
    x = rng.normal(size=(150_000, 2)) * 0.1
    for name in ("a.wav", "a.flac", "a.ogg", "a.mp3"):
        soundfile.write(tmp_path / name, x, 16000)
        whole, _ = soundfile.read(tmp_path / name, always_2d=True)
        one = whole.mean(axis=1) if channel == "mix" else whole[:, channel]
        sound = Recording(tmp_path / name, channel=channel)
        assert sound.n_samples == len(whole)
        for start, end in ((0, 10), (70_000, 140_001), (149_000, 999_999), (150_000, 150_010), (-5, 5)):
            # MP3 decodes to the last bit but one
            np.testing.assert_allclose(sound.part(start, end), one[max(0, start) : end], rtol=0, atol=1e-6)
