"""Spectrogram tiles, score curves and the virtual WAV, against what they stand for."""

import io

import numpy as np
import pytest
import soundfile

from outlark.audio.recording import Recording
from outlark.commands.panels import curves
from outlark.detection.scores import ScoreBlock, ScoreLayout
from outlark.review.identity import true_length
from outlark.review.recordings import wav_bytes, wav_clip
from outlark.review.tiles import (
    BYTE_0_DB,
    CURVE_BINS,
    CURVE_FACTOR,
    DB_PER_STEP,
    FIRST_STORED_LEVEL,
    TILE_COLUMNS,
    TILE_ROWS,
    CurveKeeper,
    Levels,
    Pyramid,
    columns_of,
    curve_tile,
    save_curves,
)

RATE = 22050


@pytest.fixture
def written(tmp_path):
    def write(samples, rate=RATE, name="a.wav", **more):
        soundfile.write(tmp_path / name, samples, rate, **more)
        return tmp_path / name

    return write


def pyramid_of(path, folder):
    rate, _, n_samples = true_length(path)
    pyramid = Pyramid(path, folder, Levels.of(rate, n_samples))
    pyramid.build()
    return pyramid


def columns(pyramid, level):
    tiles = [pyramid.tile(level, i) for i in range(pyramid.levels.tiles(level))]
    assert all(final for _, final in tiles)
    return np.frombuffer(b"".join(content for content, _ in tiles), dtype=np.uint8).reshape(-1, TILE_ROWS)


@pytest.mark.parametrize("rate", [22050, 48000, 192000])
def test_a_tone_is_in_its_row_with_its_level(written, tmp_path, rate):
    hz, level_db = rate / 7, -20.0
    tone = 10 ** (level_db / 20) * np.sin(2 * np.pi * hz * np.arange(rate) / rate)
    pyramid = pyramid_of(written(tone, rate, subtype="FLOAT"), tmp_path / "kept")
    for level in (0, FIRST_STORED_LEVEL):
        middle = columns(pyramid, level)[pyramid.levels.columns(level) // 2]
        row = int(middle.argmax())
        assert abs((row + 1) * rate / 2 / TILE_ROWS - hz) <= rate / 2 / TILE_ROWS
        if level == 0:
            assert BYTE_0_DB + DB_PER_STEP * middle[row] == pytest.approx(level_db, abs=1.6)


@pytest.mark.parametrize("sample", [5000, 12345, 21001])
def test_a_click_is_in_its_column_at_every_level(written, tmp_path, sample):
    click = np.zeros(3 * RATE)
    click[sample] = 0.9
    pyramid = pyramid_of(written(click), tmp_path / "kept")
    for level, hop in enumerate(pyramid.levels.hops):
        loudness = columns(pyramid, level).astype(float).mean(axis=1)
        loudness -= loudness.min()
        centres = pyramid.levels.edge(level) + (np.arange(len(loudness)) + 0.5) * hop
        centroid = (loudness * centres).sum() / loudness.sum()
        assert abs(centroid - sample) <= 0.55 * max(hop, pyramid.levels.window / 8)


def test_coarse_levels_are_maxima_and_no_note_is_lost(written, tmp_path, rng):
    path = written(0.1 * rng.standard_normal(40 * RATE))
    pyramid = pyramid_of(path, tmp_path / "kept")
    kept = {
        level: np.load(tmp_path / "kept" / f"{level}.npy")
        for level in range(FIRST_STORED_LEVEL, len(pyramid.levels.hops))
    }
    singles = columns_of(
        Recording(path), pyramid.levels.window, pyramid.levels.window // 2, 0, 2 * len(kept[FIRST_STORED_LEVEL])
    )
    assert (kept[FIRST_STORED_LEVEL] == singles.reshape(-1, 2, TILE_ROWS).max(axis=1)).all()
    for level in range(FIRST_STORED_LEVEL + 1, len(pyramid.levels.hops)):
        below = kept[level - 1]
        even = len(below) // 2
        assert (kept[level][:even] == below[: 2 * even].reshape(-1, 2, TILE_ROWS).max(axis=1)).all()
    medians = [
        np.median(columns(pyramid, level))
        for level in (FIRST_STORED_LEVEL - 1, FIRST_STORED_LEVEL, len(pyramid.levels.hops) - 1)
    ]
    assert np.ptp(medians) <= 6, "the background does not change with the zoom"


def test_a_kept_pyramid_is_read_again(written, tmp_path, rng):
    path = written(0.1 * rng.standard_normal(20 * RATE))
    built = pyramid_of(path, tmp_path / "kept")
    again = Pyramid(path, tmp_path / "kept", built.levels)
    assert again.whole
    assert all(again.tile(level, 0) == built.tile(level, 0) for level in range(len(built.levels.hops)))
    assert again.colour_range() == built.colour_range()


def test_tiles_are_there_while_it_builds(written, tmp_path, rng):
    path = written(0.1 * rng.standard_normal(130 * RATE))
    rate, _, n_samples = true_length(path)
    pyramid = Pyramid(path, tmp_path / "kept", Levels.of(rate, n_samples))
    assert pyramid.tile(FIRST_STORED_LEVEL, 0) == (bytes(TILE_COLUMNS * TILE_ROWS), False)
    seen = []

    def look():
        seen.append((pyramid.done, pyramid.tile(FIRST_STORED_LEVEL, 0)))
        return False

    pyramid.build(look)
    assert 0 < seen[0][0] < pyramid.levels.columns(FIRST_STORED_LEVEL)
    content, final = seen[0][1]
    assert final
    assert np.frombuffer(content, dtype=np.uint8).any()


def test_curves_in_blocks_are_those_of_the_whole(rng, tmp_path):
    layout = ScoreLayout(
        classes=np.array(["a", "b"]), thresholds=np.ones(2), sample_rate=1000, hop_samples=10, offset_samples=0,
        shortest_s=np.full(2, 0.1), longest_s=np.full(2, 0.3),
    )  # fmt: skip
    values = np.where(rng.random((5000, 2)) < 0.1, rng.random((5000, 2)), 0.0)
    block = ScoreBlock(values, np.ones(5000), rng.integers(1, 40, (5000, 2)))
    keeper = CurveKeeper(layout)
    for start in range(0, 5000, 617):
        keeper.push(block.between(start, start + 617))
    kept = keeper.curves(2)
    np.testing.assert_array_equal(kept, curves(block).astype(np.float32))
    n_levels = save_curves(kept, tmp_path)
    for level in range(n_levels):
        tiles, number = [], 0
        while (tile := curve_tile(tmp_path, level, number)) is not None:
            tiles.append(tile)
            number += 1
        bins = np.concatenate(tiles)
        starts = np.arange(0, len(kept), CURVE_FACTOR**level)
        np.testing.assert_array_equal(bins[:, :, 1], np.maximum.reduceat(kept, starts, axis=0))
        np.testing.assert_array_equal(bins[:, :, 0], np.minimum.reduceat(kept, starts, axis=0))
    assert len(bins) <= CURVE_BINS


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.aiff", "a.ogg"])
def test_the_virtual_wav_is_the_recording(written, rng, name):
    noise = 0.2 * rng.standard_normal((30_000, 2))
    path = written(noise, name=name)
    rate, n_channels, n_samples = true_length(path)
    assert (rate, n_channels, n_samples) == (RATE, 2, 30_000)
    whole = b"".join(wav_bytes(Recording(path), n_samples, 0, 44 + 2 * n_samples))
    heard, rate = soundfile.read(io.BytesIO(whole))
    np.testing.assert_allclose(heard, Recording(path).part(0, n_samples), atol=1 / 32768)
    for first, stop in ((0, 10), (43, 47), (45, 46), (20_001, 20_002), (999, 60_044), (60_040, 60_044)):
        assert b"".join(wav_bytes(Recording(path), n_samples, first, stop)) == whole[first:stop]


def test_clips_are_cut_to_the_sample(written, rng):
    path = written(0.1 * rng.standard_normal(2 * RATE))
    clip, _ = soundfile.read(io.BytesIO(wav_clip(Recording(path), 0.5, 1.0)))
    np.testing.assert_allclose(clip, Recording(path).part(11025, 22050), atol=1 / 32768)
