"""Notes one after the other in one clip, as in Sec. 4.3; with silence, noise or reverberation if wanted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.signal import fftconvolve

from outlark.errors import InputError
from outlark.experiment.sounds import SAMPLE_RATE
from outlark.segments import Segment

FLOOR = 3e-4  # rms of the recorder's own noise, about 60 dB below the made-up notes: "nearly noiseless"
REVERB_DB = -6.0  # energy of the reverberation relative to the direct sound


@dataclass(frozen=True, eq=False)
class Note:
    """One instance: its class, its samples (n,), and the bird, recording or session it is from, where that is known."""

    label: str
    samples: np.ndarray
    group: str | None = None


def concatenate(
    notes: Sequence[Note],
    *,
    gap_s: float = 0.0,
    edge_s: float = 0.0,
    snr_db: float | None = None,
    reverb_s: float = 0.0,
    rng: np.random.Generator | None = None,
    sample_rate: int = SAMPLE_RATE,
    floor: float = FLOOR,
) -> tuple[np.ndarray, list[Segment]]:
    """One clip of the notes in the given order, and where each of them is.

    By default the notes follow each other with nothing in between, as in the paper.

    Parameters
    ----------
    notes : sequence of Note
    gap_s, edge_s : float
        Seconds between notes; before the first and after the last. They hold faint noise, never digital silence.
    snr_db : float, optional
        White noise is added over the whole clip. The ratio is that of the mean power within the notes to the noise.
    reverb_s : float
        Seconds until the reverberation has fallen by 60 dB. The clip grows by as much; the spans stay those of the
        direct sound.
    rng : numpy.random.Generator
        Needed for everything but plain joining.
    sample_rate : int
        Of the notes.
    floor : float
        Root mean square of the noise in gaps and edges.

    Returns
    -------
    audio : ndarray of shape (n,)
        Scaled down as a whole where it would leave [-1, 1].
    segments : list of Segment
        One for each note. The verdict is "known": the truth is; whether its class was trained is for others to say.

    Examples
    --------
    >>> audio, spans = concatenate([Note("a", np.ones(90)), Note("b", np.zeros(50))])
    >>> spans[0].start, spans[0].end == spans[1].start, spans[1].end == len(audio)
    (0, True, True)
    """
    lengths = {"gap_s": gap_s, "edge_s": edge_s, "reverb_s": reverb_s}
    for name, value in lengths.items():
        if not 0 <= value < np.inf:
            raise InputError(f"{name}={value!r}: expected a number of seconds, 0 or more")
    if len(notes) == 0:
        raise InputError("no notes to put together: expected at least one")
    if rng is None:
        if snr_db is not None or any(lengths.values()):
            raise InputError("gaps, edges, noise and reverberation are drawn: pass rng=np.random.default_rng(seed)")
        rng = np.random.default_rng(0)  # draws nothing
    gap, edge, tail = (round(value * sample_rate) for value in lengths.values())
    ends = edge + np.cumsum([len(n.samples) + gap for n in notes]) - gap
    segments = [
        Segment(start=int(end) - len(n.samples), end=int(end), sample_rate=sample_rate, label=n.label)
        for n, end in zip(notes, ends, strict=True)
    ]
    inside = np.zeros(int(ends[-1]) + edge, dtype=bool)
    audio = np.zeros(len(inside))
    for n, s in zip(notes, segments, strict=True):
        inside[s.start : s.end] = True
        audio[s.start : s.end] = n.samples
    audio[~inside] = floor * rng.standard_normal(np.count_nonzero(~inside))
    if tail:
        audio = fftconvolve(audio, _room(tail, rng))
    if snr_db is not None:
        noise = rng.standard_normal(len(audio))
        power = np.mean(audio[: len(inside)][inside] ** 2)
        audio = audio + noise * np.sqrt(power / np.mean(noise**2) / 10 ** (snr_db / 10))
    return audio / max(1.0, float(np.abs(audio).max())), segments


def _room(tail: int, rng: np.random.Generator) -> np.ndarray:
    """Impulse response of shape (tail + 1,): the direct sound, then noise that falls by 60 dB."""
    late = rng.standard_normal(tail) * 10 ** (-3 * np.arange(1, tail + 1) / tail)
    return np.concatenate([[1.0], late * np.sqrt(10 ** (REVERB_DB / 10) / np.sum(late**2))])
