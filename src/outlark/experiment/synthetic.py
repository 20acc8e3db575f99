"""Made-up notes in place of the paper's: eight classes with its names and class sizes.

The recordings of Sec. 4.1 are not public. These notes are stand-ins, drawn from what is published about the calls of
the tufted titmouse (tuti) and the Carolina chickadee (cach): what is a harmonic stack, a chevron, a whistle or a buzz,
and about where in the spectrum. **They are not recordings, and a number obtained on them is not the paper's number.**
They serve to run the experiment from end to end, and to compare methods with one another on the same sounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.signal import fftconvolve

from outlark.errors import InputError
from outlark.experiment.sounds import RECIPES, SAMPLE_RATE, Hand
from outlark.notes.segments import Segment

KNOWN = ("tuti-D", "tuti-F", "cach-Z")
UNKNOWN = ("tuti-A", "tuti-Z", "cach-C", "cach-D", "cach-E")
#: Class → number of instances, as in Sec. 4.1.
CLASSES: Mapping[str, int] = MappingProxyType(dict(zip(KNOWN + UNKNOWN, (15, 6, 4, 4, 4, 6, 7, 10), strict=True)))

FLOOR = 3e-4  # rms of the recorder's own noise, about 60 dB below the notes: "nearly noiseless"
REVERB_DB = -6.0  # energy of the reverberation relative to the direct sound


@dataclass(frozen=True, eq=False)
class Note:
    """One instance: its class and its samples, shape (n,), at `SAMPLE_RATE`."""

    label: str
    samples: np.ndarray


def notes(seed: int = 0, *, variation: float = 1.0, counts: Mapping[str, int] | None = None) -> list[Note]:
    """All instances, class by class in the order of `CLASSES`.

    Instance i of a class depends on `seed`, the class and i only: more of one class changes nothing in the others.

    Parameters
    ----------
    seed : int
    variation : float
        Scales the spread within a class, see `note`.
    counts : mapping from class to number of instances, default `CLASSES`
        Classes that it does not name are left out.

    Examples
    --------
    >>> len(notes()), [n.label for n in notes(counts={"cach-Z": 1, "tuti-D": 2})]
    (56, ['tuti-D', 'tuti-D', 'cach-Z'])
    """
    counts = CLASSES if counts is None else counts
    for name, count in counts.items():
        _check_class(name)
        if count < 0:
            raise InputError(f"counts[{name!r}]={count}: expected 0 or more instances")
    return [
        Note(name, note(name, np.random.default_rng([seed, c, i]), variation=variation))
        for c, name in enumerate(CLASSES)
        for i in range(counts.get(name, 0))
    ]


def note(name: str, rng: np.random.Generator, *, variation: float = 1.0) -> np.ndarray:
    """One instance of a class: a stand-in, not a recording.

    Parameters
    ----------
    name : one of `CLASSES`
    rng : numpy.random.Generator
    variation : float, 0 to 3
        Scales how much instances differ in pitch (a few %), length (±15 %), loudness (±5 dB), modulation, onset,
        decay and jitter. With 0, they differ in phases and noise only.

    Returns
    -------
    samples : ndarray of shape (n,), within [-1, 1], n about .1 to .35 s

    Examples
    --------
    >>> samples = note("tuti-D", np.random.default_rng(0))
    >>> samples.ndim, bool(0.1 < len(samples) / SAMPLE_RATE < 0.35), bool(abs(samples).max() <= 1)
    (1, True, True)
    """
    _check_class(name)
    if not 0 <= variation <= 3:
        raise InputError(f"variation={variation!r}: expected a number from 0 to 3; 1 is natural")
    hand = Hand(rng, variation)
    sound = RECIPES[name](hand)
    loudness = min(hand.near(0.35, 0.6), 0.95)
    return loudness * sound / np.abs(sound).max() + FLOOR * rng.standard_normal(len(sound))


def concatenate(
    notes: Sequence[Note],
    *,
    gap_s: float = 0.0,
    edge_s: float = 0.0,
    snr_db: float | None = None,
    reverb_s: float = 0.0,
    rng: np.random.Generator | None = None,
) -> tuple[np.ndarray, list[Segment]]:
    """One clip of the notes in the given order, and where each of them is.

    By default the notes follow each other with nothing in between, as in the paper.

    Parameters
    ----------
    notes : sequence of Note
    gap_s, edge_s : float
        Seconds between notes; before the first and after the last. They hold the faint floor of the notes, never
        digital silence.
    snr_db : float, optional
        White noise is added over the whole clip. The ratio is that of the mean power within the notes to the noise.
    reverb_s : float
        Seconds until the reverberation has fallen by 60 dB. The clip grows by as much; the spans stay those of the
        direct sound.
    rng : numpy.random.Generator
        Needed for everything but plain joining.

    Returns
    -------
    audio : ndarray of shape (n,)
        Scaled down as a whole where it would leave [-1, 1].
    segments : list of Segment
        One for each note. The verdict is "known": the truth is; whether its class was trained is for others to say.

    Examples
    --------
    >>> audio, spans = concatenate(notes(counts={"tuti-F": 2}))
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
    gap, edge, tail = (round(value * SAMPLE_RATE) for value in lengths.values())
    ends = edge + np.cumsum([len(n.samples) + gap for n in notes]) - gap
    segments = [
        Segment(start=int(end) - len(n.samples), end=int(end), sample_rate=SAMPLE_RATE, label=n.label)
        for n, end in zip(notes, ends, strict=True)
    ]
    inside = np.zeros(int(ends[-1]) + edge, dtype=bool)
    audio = np.zeros(len(inside))
    for n, s in zip(notes, segments, strict=True):
        inside[s.start : s.end] = True
        audio[s.start : s.end] = n.samples
    audio[~inside] = FLOOR * rng.standard_normal(np.count_nonzero(~inside))
    if tail:
        audio = fftconvolve(audio, _room(tail, rng))
    if snr_db is not None:
        noise = rng.standard_normal(len(audio))
        power = np.mean(audio[: len(inside)][inside] ** 2)
        audio = audio + noise * np.sqrt(power / np.mean(noise**2) / 10 ** (snr_db / 10))
    return audio / max(1.0, float(np.abs(audio).max())), segments


def _check_class(name: str) -> None:
    if name not in CLASSES:
        raise InputError(f"{name!r} is not a class of notes: expected one of {', '.join(CLASSES)}")


def _room(tail: int, rng: np.random.Generator) -> np.ndarray:
    """Impulse response of shape (tail + 1,): the direct sound, then noise that falls by 60 dB."""
    late = rng.standard_normal(tail) * 10 ** (-3 * np.arange(1, tail + 1) / tail)
    return np.concatenate([[1.0], late * np.sqrt(10 ** (REVERB_DB / 10) / np.sum(late**2))])
