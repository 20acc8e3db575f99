"""Sounds given as arrays or paths: samples and sample rate of each."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from outlark.audio.sound import check_sample_rate, mono, read
from outlark.errors import InputError


class Sound(NamedTuple):
    """One channel of samples (n,), and its sample rate."""

    samples: np.ndarray
    rate: int


def is_path(sound: Any) -> bool:
    """Whether a sound is given as a file."""
    return isinstance(sound, str | PathLike)


def loaded(sounds: Any, sample_rate: int | Sequence[int] | None, what: str) -> list[tuple[Any, int]]:
    """Samples, unchanged, and sample rate of each sound.

    Parameters
    ----------
    sounds : sequence of arrays, paths, or Sound
    sample_rate : int or sequence of int
        Of the arrays; the others have their own.
    what : str
        Their name in errors.
    """
    single = isinstance(sounds, np.ndarray) and sounds.dtype != object and sounds.ndim == 1
    if isinstance(sounds, Sound) or is_path(sounds) or single:
        raise InputError(f"{what} is a single {type(sounds).__name__}; give a list, even of one")
    return [_loaded(sound, _rate_of(sample_rate, i), f"{what}[{i}]") for i, sound in enumerate(sounds)]


def loaded_sounds(sounds: Any, sample_rate: int | Sequence[int] | None, what: str) -> list[Sound]:
    """Every sound as one channel, none of them empty; parameters as in `loaded`.

    >>> loaded_sounds([np.array([16384], dtype=np.int16)], 22050, "clips")
    [Sound(samples=array([0.5]), rate=22050)]
    """
    found = [Sound(mono(samples), check_sample_rate(rate)) for samples, rate in loaded(sounds, sample_rate, what)]
    for i, sound in enumerate(found):
        if not len(sound.samples):
            where = str(sounds[i]) if is_path(sounds[i]) else f"{what}[{i}]"
            raise InputError(f"{where} is empty; omit it or give its samples")
    return found


def _loaded(sound: Any, sample_rate: int | None, where: str) -> tuple[Any, int]:
    if isinstance(sound, Sound):
        return sound
    if is_path(sound):
        return read(sound)
    if sample_rate is None:
        raise InputError(f"{where} is an array without sample_rate; give the rate, or a path to a file")
    return sound, sample_rate


def _rate_of(sample_rate: int | Sequence[int] | None, number: int) -> int | None:
    if sample_rate is None or isinstance(sample_rate, int | float | np.number):
        return sample_rate
    if number >= len(sample_rate):
        raise InputError(f"{len(sample_rate)} sample rates, but more sounds; give one rate, or one for each")
    return sample_rate[number]
