"""Notes in field noise: clips with gaps between them, laid over a stretch of a noisy recording."""

from collections.abc import Sequence

import numpy as np
from scipy.fft import next_fast_len

#: Where the power of notes and noise is compared. Wind and engines lie below, and are left in.
BAND_HZ = (500.0, 10_000.0)
#: Shortest and longest gap before, between and after the notes.
GAP_S = (0.3, 1.0)
#: At both ends of a clip: one cut out of song would click, and the click would tell where it is.
FADE_S = 0.002
#: Where a recording that is too short starts again.
OVERLAP_S = 0.1


def spread_out(clips: Sequence[np.ndarray], rate: int, rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
    """The clips in their order, faded at both ends, with random gaps of silence; and the first sample of each."""
    gaps = np.round(rng.uniform(*GAP_S, size=len(clips) + 1) * rate).astype(int).tolist()
    pieces, starts, at = [np.zeros(gaps[0])], [], gaps[0]
    for clip, gap in zip(clips, gaps[1:], strict=True):
        starts.append(at)
        pieces += [_faded(clip, rate), np.zeros(gap)]
        at += len(clip) + gap
    return np.concatenate(pieces), starts


def stretch(noise: np.ndarray, n: int, rate: int, rng: np.random.Generator) -> np.ndarray:
    """n samples from a random place; a recording that is too short goes round, its end blended into its start."""
    if len(noise) >= n:
        start = int(rng.integers(len(noise) - n + 1))
        return noise[start : start + n]
    overlap = round(OVERLAP_S * rate)
    angle = np.pi / 2 * np.arange(overlap) / overlap
    around = noise[:-overlap].copy()
    # sin² + cos² = 1: the power stays the same where the two, which have nothing in common, meet
    around[:overlap] = noise[:overlap] * np.sin(angle) + noise[-overlap:] * np.cos(angle)
    return np.resize(np.roll(around, -int(rng.integers(len(around)))), n)


def mixed(notes: np.ndarray, spans: Sequence[slice], noise: np.ndarray, rate: int, snr_db: float) -> np.ndarray:
    """Notes plus noise (n,), the noise at the level that gives the signal-to-noise ratio.

    It is the mean power of the notes, all of them together and over their spans alone, against the mean power of the
    noise over its whole length, both within `BAND_HZ`. Notes keep their loudness: a soft one is nearer to the noise.
    """
    signal = band_power([notes[span] for span in spans], rate)
    gain = np.sqrt(signal / band_power([noise], rate) / 10 ** (snr_db / 10))
    return notes + gain * noise


def band_power(pieces: Sequence[np.ndarray], rate: int) -> float:
    """The mean square of all samples of the pieces, of what lies within `BAND_HZ`."""
    return sum(_band_energy(piece, rate) for piece in pieces) / sum(len(piece) for piece in pieces)


def _band_energy(x: np.ndarray, rate: int) -> float:
    """Parseval: the spectrum of a real signal has every frequency within the band twice."""
    n = next_fast_len(len(x), real=True)  # zeros after it add no energy
    frequencies = np.fft.rfftfreq(n, 1 / rate)
    within = (frequencies >= BAND_HZ[0]) & (frequencies <= BAND_HZ[1])
    return 2 * float(np.sum(np.abs(np.fft.rfft(x, n)[within]) ** 2)) / n


def _faded(clip: np.ndarray, rate: int) -> np.ndarray:
    n = min(round(FADE_S * rate), len(clip) // 2)
    rise = np.sin(np.pi / 2 * (np.arange(n) + 0.5) / n) ** 2
    return np.concatenate([clip[:n] * rise, clip[n : len(clip) - n], clip[len(clip) - n :] * rise[::-1]])
