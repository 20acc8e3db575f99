"""Through every format and back, to the precision of the format."""

import csv
import io
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from outlark.annotations import FORMATS, Annotation, read_annotations, write_annotations
from outlark.annotations.annotation import confidence, shown, taken_apart
from outlark.annotations.files import comma_line, guarded, one_line, tab_cells, tab_line, unguarded
from outlark.annotations.other_programs import ends_in_score

ODD = [
    "=1+1", "+a", "-b", "@c", "\tx", "\rx", "'=", "''-", 'a "b"', '"', '"a"', "a\tb", "a\nb", "a\r\nb", "a,b", "a;b",
    "é", "小鳥", "unknown", "known", "a or b?", "x?", "1", "NA", "nan", " a ", "a\\", "\\", "#", "a 1.50", "'o",
]  # fmt: skip
RECORDINGS = ["a.wav", "night/b c.WAV", "/data/site 1/å.flac", "-x.wav"]
#: A little more than a day; Raven counts over all of them.
DURATIONS = dict.fromkeys(RECORDINGS, 86410.0)
texts = st.one_of(
    st.sampled_from(ODD), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
)
scores = st.none() | st.floats(-5, 50)


@st.composite
def annotations(draw):
    verdict = draw(st.sampled_from(["known", "ambiguous", "unknown", "silence", None]))
    rate = draw(st.sampled_from([8000, 22050, 44100, 256000, 384000]))
    start = draw(st.integers(0, 86400 * rate))
    end = start + draw(st.integers(0, 5 * rate))
    label = draw(texts) if verdict in ("known", "ambiguous") or (verdict is None and draw(st.booleans())) else None
    runner_up = draw(st.none() | texts)
    band = sorted(draw(st.tuples(st.integers(0, 9000), st.integers(0, 9000)))) if draw(st.booleans()) else [None, None]
    return Annotation(
        start_s=start / rate,
        end_s=end / rate,
        sample_rate=rate,
        label=label,
        verdict=verdict,
        score=draw(scores),
        runner_up=runner_up,
        runner_up_score=draw(scores) if runner_up is not None else None,
        reason=draw(st.just("") | texts),
        recording=draw(st.sampled_from(RECORDINGS)),
        channel=draw(st.none() | st.integers(1, 8)),
        low_hz=band[0],
        high_hz=band[1],
        more=draw(st.dictionaries(st.sampled_from(["Site", "Peak Freq (Hz)", "species", "Q"]), texts, max_size=2)),
    )


def there_and_back(found, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a{FORMATS[name].suffix}")
        write_annotations(path, found, format=name, durations=DURATIONS if name == "raven" else None)
        table = read_annotations(path, format=None if name != "audacity" else name)
        assert table.format == name
        return [replace(annotation, line=None) for annotation in table.annotations]


def many(test):
    return settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])(
        given(st.lists(annotations(), max_size=5))(test)
    )


def same(a, b, digits):
    return a == b if a is None or b is None else abs(a - b) <= 0.51 * 10**-digits


def assert_times(found, back, digits=9):
    assert len(found) == len(back)
    for annotation, again in zip(found, back, strict=True):
        assert same(annotation.start_s, again.start_s, digits)
        assert abs(annotation.end_s - again.end_s) <= 2 * 10**-digits
        assert round(again.start_s * annotation.sample_rate) == round(annotation.start_s * annotation.sample_rate)
        assert round(again.end_s * annotation.sample_rate) == round(annotation.end_s * annotation.sample_rate)


def test_parquet():
    pytest.importorskip("pyarrow")
    many(lambda found: _exact(found, "parquet"))()


@many
def test_json_lines(found):
    _exact(found, "jsonl")


def _exact(found, name):
    assert there_and_back(found, name) == found


@many
def test_csv(found):
    back = there_and_back(found, "csv")
    for annotation, again in zip(found, back, strict=True):
        assert same(annotation.score, again.score, 6)
        assert same(annotation.runner_up_score, again.runner_up_score, 6)
        assert replace(again, score=annotation.score, runner_up_score=annotation.runner_up_score) == annotation


@many
def test_raven(found):
    sounds = [annotation for annotation in found if annotation.verdict != "silence"]
    back = there_and_back(found, "raven")
    assert_times(sounds, back)
    for annotation, again in zip(sounds, back, strict=True):
        assert again.label == (None if annotation.label is None else one_line(annotation.label) or None)
        assert again.runner_up == (None if annotation.runner_up is None else one_line(annotation.runner_up) or None)
        assert (again.verdict, again.channel) == (annotation.verdict, annotation.channel)
        assert (again.low_hz, again.high_hz) == (annotation.low_hz, annotation.high_hz)
        assert again.recording == annotation.recording
        assert same(annotation.score, again.score, 6)
        assert again.reason == one_line(annotation.reason)
        assert again.more == {key: one_line(text) for key, text in annotation.more.items() if one_line(text)}


@many
def test_audacity(found):
    sounds = [annotation for annotation in found if annotation.verdict != "silence"]
    # a label without score that looks like one with a score cannot be told from it
    assume(not any(annotation.score is None and ends_in_score(one_line(shown(annotation))) for annotation in sounds))
    back = there_and_back(found, "audacity")
    assert_times(sounds, back)
    for annotation, again in zip(sounds, back, strict=True):
        assert shown(again) == one_line(shown(annotation))
        assert same(annotation.score, again.score, 2)
        assert (again.low_hz, again.high_hz) == (annotation.low_hz, annotation.high_hz)


@pytest.mark.parametrize("name", ["kaleidoscope", "birdnet"])
def test_tables_with_one_place_for_a_label(name):
    @many
    def check(found):
        sounds = [annotation for annotation in found if annotation.verdict != "silence"]
        back = there_and_back(found, name)
        assert_times(sounds, back)
        for annotation, again in zip(sounds, back, strict=True):
            assert shown(again).strip() == shown(annotation).strip()
            assert again.recording == annotation.recording
            assert same(annotation.score, again.score, 6)
            if name == "kaleidoscope":
                assert again.channel == annotation.channel
                assert (again.low_hz, again.high_hz) == (annotation.low_hz, annotation.high_hz)

    check()


@many
def test_confidences_lie_between_0_and_1_and_part_at_one_half(found):
    with tempfile.TemporaryDirectory() as folder:
        write_annotations(f"{folder}/a", found, format="birdnet")
        with Path(folder, "a").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    sounds = [annotation for annotation in found if annotation.verdict != "silence"]
    for annotation, row in zip(sounds, rows, strict=True):
        assert (row["Confidence"] == "") == (annotation.score is None)
        sure = float(row["Confidence"] or 0.0)
        assert 0.0 <= sure <= 1.0
        if annotation.score is not None and annotation.verdict is not None:
            assert (sure <= 0.5) if annotation.verdict == "unknown" else (sure >= 0.5)


@given(st.sampled_from(["known", "unknown"]), st.floats(0, 8), st.floats(0, 8))
def test_confidences_keep_the_order_of_scores(verdict, one, other):
    assume(abs(one - other) > 1e-6)
    first, second = (confidence(Annotation(start_s=0, end_s=1, verdict=verdict, score=s)) for s in (one, other))
    assert (first < second) == (one < other)


@many
def test_dcase(found):
    known = [one for one in found if one.implied_verdict == "known"]
    back = there_and_back(found, "dcase")
    assert_times(known, back)
    assert [annotation.recording for annotation in back] == [Path(annotation.recording).name for annotation in known]


def test_aoef():
    pytest.importorskip("soundevent")

    @many
    def check(found):
        by_recording = [m for name in dict.fromkeys(m.recording for m in found) for m in found if m.recording == name]
        back = there_and_back(found, "aoef")
        assert len(back) == len(found)
        for annotation, again in zip(by_recording, back, strict=True):
            assert (again.start_s, again.end_s, again.label) == (annotation.start_s, annotation.end_s, annotation.label)
            assert (again.recording, again.verdict) == (annotation.recording, annotation.verdict)
            assert again.runner_up == annotation.runner_up
            assert (again.low_hz, again.high_hz) == (annotation.low_hz, annotation.high_hz)
            if annotation.verdict is not None:
                assert (again.score, again.runner_up_score) == (annotation.score, annotation.runner_up_score)

    check()


@given(texts)
def test_the_guard_comes_off_again(text):
    assert unguarded(guarded(text)) == text
    assert guarded(text)[0] not in "=+-@\t\r"


@given(st.lists(texts.map(one_line), min_size=1))
def test_tab_lines_come_back(cells):
    assert tab_cells(tab_line(cells).removesuffix("\n")) == cells


@given(st.lists(texts, min_size=2))
def test_comma_lines_come_back(cells):
    assert list(csv.reader(io.StringIO(comma_line(cells), newline=""), strict=True)) == [cells]


@given(texts)
def test_what_is_shown_is_shown_again(text):
    label, verdict, runner_up = taken_apart(text)
    assert shown(Annotation(start_s=0, end_s=1, label=label, verdict=verdict, runner_up=runner_up)) == text


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@given(times=st.tuples(st.floats(0, 1e5), st.floats(0, 10)), rate=st.sampled_from([11025, 22050, 44100, 384000]))
@settings(max_examples=40, deadline=None)
def test_times_between_samples_keep_all_digits(format, times, rate):
    """An annotation by hand, or of a recording at another rate, need not begin with a sample."""
    if format == "parquet":
        pytest.importorskip("pyarrow")
    annotation = Annotation(start_s=times[0], end_s=times[0] + times[1], label="a", sample_rate=rate)
    with tempfile.TemporaryDirectory() as folder:
        write_annotations(f"{folder}/a", [annotation], format=format)
        (again,) = read_annotations(f"{folder}/a", format=format).annotations
    assert (again.start_s, again.end_s) == (annotation.start_s, annotation.end_s)


def test_times_between_samples_keep_nine_digits_in_csv(tmp_path):
    annotation = Annotation(start_s=0.1234567891, end_s=0.2000001111, label="a", sample_rate=22050)
    on_grid = Annotation(start_s=1 / 3, end_s=20000 / 22050, label="a", sample_rate=22050)
    write_annotations(tmp_path / "a.csv", [annotation, on_grid], format="csv")
    again, on_grid_again = read_annotations(tmp_path / "a.csv").annotations
    assert (again.start_s, again.end_s) == (0.123456789, 0.200000111)
    assert (on_grid_again.start_s, on_grid_again.end_s) == (7350 / 22050, 20000 / 22050)
