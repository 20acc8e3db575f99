"""Reading sound: one channel of finite floats from arrays (`mono`) and files (`AudioFile`, `read`)."""

import operator
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile
from numpy.typing import ArrayLike

from outlark.audio.streams import Contents, Window, contents
from outlark.errors import AudioError, InputError
from outlark.files.places import (
    NOT_REGULAR,
    as_os_errors,
    as_place,
    is_endless,
    is_url,
    length_of,
    opened,
    starts_a_model,
)
from outlark.plain_text import is_text

#: Gets all channels of a piece of a recording, (n, channels).
Heard = Callable[[np.ndarray], None]
#: Full scale of integer samples, by kind and size in bytes. 24 bits come left-justified in 32.
FULL_SCALE = {("u", 1): 2.0**7, ("i", 2): 2.0**15, ("i", 4): 2.0**31}
#: Samples decoded or processed at once, and those decoded at once near the end of a file that was cut.
CHUNK, PIECE = 2**16, 2**10
#: Bytes by which a file that is not a recording is recognised.
START = 2**12
#: Encodings that decode to the same numbers from any position; MP3, Vorbis and Opus do not.
SEEKABLE = frozenset({"PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"})
#: More columns than this, and more than rows, mean that channels and samples are swapped.
MANY_CHANNELS = 64
LOWEST_RATE, HIGHEST_RATE = 100, 10_000_000
#: No sample of sound is larger: floats lie within ±1, or hold integers of up to 32 bits.
LARGEST = 2.0**32


def mono(audio: ArrayLike, channel: int | str = "mix") -> np.ndarray:
    """One channel as floats.

    Parameters
    ----------
    audio : array-like of shape (n,) or (n, channels)
        Rows are samples. Floats are not scaled. Integers are scaled to [-1, 1): int16, int32 (including 24 bits
        left-justified, as soundfile gives them) and uint8, whose zero is 128.
    channel : "mix" or int
        The mean of all channels, or one of them, counted from 0.

    Returns
    -------
    ndarray of float64, shape (n,)
        Contiguous; it may share memory with `audio`, so do not write to it.

    Examples
    --------
    >>> mono(np.array([[16384, 0], [-32768, 0]], dtype=np.int16))
    array([ 0.25, -0.5 ])
    >>> mono([[0.5, 0.0], [0.25, 1.0]], channel=1)
    array([0., 1.])
    """
    x = _as_columns(audio)
    chosen = check_channel(channel, x.shape[1])
    one = _one_channel(x, chosen)
    bad = _first_bad(one)
    if bad is not None:
        n = int((~(np.abs(one) <= LARGEST)).sum())
        raise InputError(
            f"{n} of {len(one)} samples are NaN, infinite or far too large, the first is sample {bad} ({one[bad]:g}); "
            "cut them out or set them to 0"
        )
    return one


def check_channel(channel: Any, channels: int) -> int | None:
    """The number of an existing channel; None for "mix".

    >>> check_channel(1, channels=2)
    1
    >>> check_channel("mix", channels=2)
    """
    if isinstance(channel, str) and channel == "mix":
        return None
    try:
        number = -1 if isinstance(channel, bool | np.bool_) else operator.index(channel)
    except TypeError:
        number = -1
    if not 0 <= number < channels:
        raise InputError(
            f"channel={channel!r}, but the audio has {channels} channel{'s' if channels > 1 else ''}; give 'mix' or a "
            f"whole number from 0 to {channels - 1}"
        )
    return number


def check_sample_rate(rate: Any) -> int:
    """A whole number of samples per second, from 100 Hz to 10 MHz.

    >>> check_sample_rate(22050.0)
    22050
    """
    number = isinstance(rate, int | float | np.integer | np.floating)  # True is 1 and too low
    if number and LOWEST_RATE <= rate <= HIGHEST_RATE and rate == int(rate):
        return int(rate)
    raise InputError(
        f"sample_rate={rate!r} must be a whole number of samples per second, from {LOWEST_RATE} to {HIGHEST_RATE}"
    )


class AudioFile:
    """A sound file, read block by block, in any format of libsndfile: WAV, FLAC, OGG, MP3, AIFF, …

    The file is open only while `blocks` runs; there is nothing to close.

    Parameters
    ----------
    path : path of the file, or its URL
    channel : "mix" or int
        The mean of all channels, or one of them, counted from 0.

    Attributes
    ----------
    path : Path, or str for a URL
    sample_rate : int
    channels : int
        Of the file.
    chosen : int or None
        The channel that is read, counted from 0; None for the mean of all.
    n_samples : int
        As far as it is known before decoding.
    seekable : bool
        Whether `blocks` may start anywhere.
    format, subtype, what : str
        As libsndfile names them, and both in words.
    partial : str or None
        What is missing, or wrong with the header.
    remarks : tuple of str
        What else is odd.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.zeros((2500, 2)), 8000)
    ...     audio = AudioFile(f"{folder}/a.wav")
    ...     [len(block) for block in audio.blocks(1000)]
    [1000, 1000, 500]
    >>> audio.sample_rate, audio.channels
    (8000, 2)
    """

    def __init__(self, path: str | PathLike[str], channel: int | str = "mix") -> None:
        self.path = as_place(path)
        with self._bytes() as file:
            self._streams, self.partial = self._contents(file)
        self.remarks: tuple[str, ...] = ()
        with self._open() as file:
            try:
                self.sample_rate = check_sample_rate(file.samplerate)
                self.channels, self.n_samples = int(file.channels), int(file.frames)
                self.format, self.subtype = file.format, file.subtype
                self.what = f"{file.format_info}, {file.subtype_info}"
                self.seekable = bool(file.seekable()) and file.subtype in SEEKABLE
                self.chosen = check_channel(channel, self.channels)
            except InputError as error:
                raise AudioError(f"{self.path}: {error}") from error
        # seeking in a file that was cut fails, or ends elsewhere
        self.seekable &= not (self.format == "FLAC" and self.partial)
        self._lengths = [self.n_samples]
        if len(self._streams) > 1:
            self._join()

    def _join(self) -> None:
        """Take in the streams that follow the first, as far as they can be read as one with it."""
        for number in range(1, len(self._streams)):
            try:
                with self._open(number) as file:
                    like = (int(file.samplerate), int(file.channels), file.subtype)
                    n_samples = int(file.frames)
            except AudioError:
                like, n_samples = (0, 0, ""), 0
            if like != (self.sample_rate, self.channels, self.subtype):
                seconds = self.n_samples / self.sample_rate
                what = f"{like[0]} Hz, {like[1]} channels" if like[0] else "no sound that can be read"
                self.partial = (
                    f"joined from {len(self._streams)} recordings, and what follows after {seconds:.3f} s was not read "
                    f"({what}); split the file, or convert it to WAV"
                )
                break
            self._lengths.append(n_samples)
            self.n_samples += n_samples
        if len(self._lengths) > 1:
            self.remarks = (f"joined from {len(self._lengths)} recordings, which were read one after another",)

    def blocks(self, n_samples: int, *, first: int = 0, heard: Heard | None = None) -> Iterator[np.ndarray]:
        """The recording from sample `first` on in blocks of `n_samples`, the last one shorter; float64, (n_samples,).

        `heard` gets all channels as they are decoded, (n, channels). A file that was cut short gives what it holds. If
        decoding fails, or at samples that are no sound, the blocks before are given first, to within 65,536 samples;
        the error says at which second.
        """
        if not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise InputError(f"n_samples={n_samples!r} must be a whole number of samples per block, 1 or more")
        if first and not self.seekable:
            raise AudioError(f"{self.path} can only be read from its start; convert it to WAV or FLAC")
        return self._recut(int(n_samples), first, heard)

    def _recut(self, n_samples: int, first: int, heard: Heard | None) -> Iterator[np.ndarray]:
        held: list[np.ndarray] = []
        size = 0
        try:
            for chunk in self._chunks(first, heard=heard):
                held.append(chunk)
                size += len(chunk)
                if size >= n_samples:
                    joined = np.concatenate(held)
                    cut = size - size % n_samples
                    yield from joined[:cut].reshape(-1, n_samples)
                    held, size = [joined[cut:]], size - cut
        except AudioError:
            if size:
                yield np.concatenate(held)
            raise
        if size:
            yield np.concatenate(held)

    def _chunks(self, first: int = 0, size: int = CHUNK, heard: Heard | None = None) -> Iterator[np.ndarray]:
        """The chosen channel, as finite numbers."""
        done = first
        for x in self.decoded(first=first, size=size):
            one = _one_channel(x, self.chosen)
            bad = _first_bad(one)
            if bad is not None:
                at, own = done + bad, x[bad] if self.chosen is None else x[bad, [self.chosen]]
                value = own[_first_bad(own) or 0]
                raise AudioError(
                    f"{self.path}: sample {at}, at {at / self.sample_rate:.3f} s, is {value:g}, which is no sound; "
                    "cut the file before, or set such samples to 0"
                )
            if heard is not None:
                heard(x)
            yield one
            done += len(one)

    def part(self, start: int, end: int) -> np.ndarray:
        """Samples start … end - 1 of the chosen channel, as far as they exist: the same as those of `blocks`."""
        if start >= end:
            return np.empty(0)
        first = start if self.seekable else 0
        pieces, at = [np.empty(0)], first
        for piece in self._chunks(first, min(CHUNK, end - start) if self.seekable else CHUNK):
            pieces.append(piece[max(0, start - at) : end - at])
            at += len(piece)
            if at >= end:
                break
        return np.concatenate(pieces)

    def decoded(self, dtype: str = "float64", first: int = 0, size: int = CHUNK) -> Generator[np.ndarray]:
        """All channels (n, channels) from sample `first` on, as they are in the file; any `size` if it is `seekable`.

        Otherwise always the same pieces from the start, because what Opus decodes to depends on them.
        """
        for number, n_samples in enumerate(self._lengths):
            if 0 < first >= n_samples and number + 1 < len(self._lengths):
                first -= n_samples
                continue
            before = sum(self._lengths[:number])
            yield from self._decoded(number, dtype, before, first, size)
            first = 0

    def _decoded(self, number: int, dtype: str, before: int, first: int, size: int) -> Iterator[np.ndarray]:
        done, cut = first, self.format == "FLAC" and self.partial is not None
        with self._open(number) as file:
            if first > file.frames:
                return
            if first:
                file.seek(first)
            while True:
                try:
                    x = file.read(PIECE if cut else size, dtype=dtype, always_2d=True)
                except soundfile.SoundFileError as error:
                    if cut:
                        return
                    seconds = (before + done) / self.sample_rate
                    raise AudioError(
                        f"{self.path}: decoding failed after {seconds:.3f} s ({error}); the file is damaged there: get "
                        "another copy, or cut it before"
                    ) from error
                if not len(x):
                    return
                yield x
                done += len(x)

    @contextmanager
    def _open(self, number: int = 0) -> Iterator[soundfile.SoundFile]:
        """The decoder of a stream."""
        with self._bytes() as file:
            try:
                if self._streams:
                    source: Any = Window(file, self._streams[number])
                else:
                    source = file if is_url(self.path) else for_decoder(self.path)
                with soundfile.SoundFile(source) as decoder:
                    yield decoder
            except (soundfile.SoundFileError, TypeError) as error:  # TypeError: a name that ends in .raw
                if getattr(file, "error", None) is None:
                    raise self._not_decoded(file, error) from error

    @contextmanager
    def _bytes(self) -> Iterator[BinaryIO]:
        """The file itself. The decoder takes an error of the network for the end of the file; here it is raised."""
        wrong: Exception | None = None
        try:
            if is_endless(self.path):
                raise AudioError(f"{self.path} {NOT_REGULAR}")
            with opened(self.path) as file:
                source: Any = Fetching(file) if is_url(self.path) else file
                try:
                    yield source
                except AudioError as error:
                    wrong = error  # what is wrong with the sound is no error of the network
                if getattr(source, "error", None) is not None:
                    raise source.error
        except (FileNotFoundError, NotADirectoryError) as error:
            where = "URL" if is_url(self.path) else "path"
            raise AudioError(f"{self.path} does not exist; check the {where}") from error
        except OSError as error:
            raise self._not_opened(error) from error
        if wrong is not None:
            raise wrong

    def _contents(self, file: BinaryIO) -> Contents:
        if not file.read(1):
            raise AudioError(f"{self.path} is empty (0 bytes); copy or record it again")
        return contents(file)

    def _not_opened(self, error: OSError) -> AudioError:
        why = error.strerror or error
        if is_url(self.path):
            return AudioError(f"{self.path} cannot be fetched ({why}); check the connection and your permissions")
        if Path(self.path).is_dir():
            return AudioError(f"{self.path} is a folder; give the path of one sound file")
        return AudioError(f"{self.path} cannot be opened ({why}); check that you may read it")

    def _not_decoded(self, file: BinaryIO, error: Exception) -> AudioError:
        file.seek(0)
        start = file.read(START)
        if starts_a_model(start, length_of(file)):
            return AudioError(f"{self.path} is a model, not a recording; give sound files or folders of them")
        if is_text(start):
            return AudioError(f"{self.path} is a text file, not a sound file; give the recording it belongs to")
        return AudioError(
            f"{self.path} cannot be decoded as a sound file ({error}); convert it to WAV or FLAC, or get another copy"
        )


class Fetching:
    """A file for the decoder that remembers errors, which the decoder itself cannot pass on."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def read(self, n: int = -1) -> bytes:
        """As for any file; nothing after an error."""
        if self.error is None:
            try:
                with as_os_errors("it"):
                    return self._file.read(n)
            except OSError as error:
                self.error = error
        return b""

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def write(self, data: bytes) -> int:
        """Never called, but soundfile requires it."""
        raise OSError("read only")


def for_decoder(path: str | PathLike[str]) -> str | bytes:
    """A path for libsndfile: bytes if the name is not valid text.

    >>> for_decoder("café.wav"), for_decoder("caf\\udce9.wav")
    ('café.wav', b'caf\\xe9.wav')
    """
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return os.fsencode(text)
    return text


def read(path: str | PathLike[str], channel: int | str = "mix") -> tuple[np.ndarray, int]:
    """A whole sound file: its samples, float64 of shape (n,), and its sample rate.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.array([0.5, -0.5]), 8000)
    ...     read(f"{folder}/a.wav")
    (array([ 0.5, -0.5]), 8000)
    """
    audio = AudioFile(path, channel)
    return audio.part(0, sys.maxsize), audio.sample_rate


def _as_columns(audio: ArrayLike) -> np.ndarray:
    """Audio as (n, channels), not yet scaled."""
    try:
        x = np.asarray(audio)
    except (ValueError, TypeError) as error:
        raise InputError(f"audio is not an array ({error}); give numbers of shape (n,) or (n, channels)") from error
    kind, size = x.dtype.kind, x.dtype.itemsize
    if kind != "f" and (kind, size) not in FULL_SCALE:
        why = "have no agreed full scale" if kind in "iu" else "are not sound"
        raise InputError(
            f"audio of type {x.dtype}: such values {why}; give floats within ±1, or int16, int32 or uint8 as sound "
            "files hold them"
        )
    if x.ndim not in (1, 2):
        raise InputError(f"audio has {x.ndim} dimensions, shape {x.shape}; give (n,) or (n, channels)")
    x = x[:, None] if x.ndim == 1 else x
    n, channels = x.shape
    if channels == 0:
        raise InputError(f"audio of shape {x.shape} has no channels; give (n,) or (n, channels)")
    if channels > MANY_CHANNELS and channels > n:
        raise InputError(
            f"audio of shape {x.shape} would be {n} samples of {channels} channels; rows must be samples: give audio.T"
        )
    return x


def _first_bad(one: np.ndarray) -> int | None:
    """The first sample that is NaN, infinite or too large for sound, or None."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.dot(one, one) <= LARGEST**2:  # the fastest way to say that all are fine; False for NaN
            return None
        bad = ~(np.abs(one) <= LARGEST)
    return int(bad.argmax()) if bad.any() else None


def _one_channel(x: np.ndarray, chosen: int | None) -> np.ndarray:
    """One column of (n, channels), or for None their mean, as contiguous float64; may hold NaN."""
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for NaN and infinity
        if chosen is not None or x.shape[1] == 1:
            return np.ascontiguousarray(_scaled(x[:, chosen or 0]))
        # column after column: fast, and the same bits whatever the number of rows
        total = _scaled(x[:, 0]) + _scaled(x[:, 1])
        for k in range(2, x.shape[1]):
            total += _scaled(x[:, k])
        return total / x.shape[1]


def _scaled(x: np.ndarray) -> np.ndarray:
    """Native float64; integers to [-1, 1)."""
    floats = x.astype(np.float64, copy=False)
    if x.dtype.kind == "f":
        return floats
    if x.dtype.kind == "u":
        floats = floats - 128.0
    return floats / FULL_SCALE[x.dtype.kind, x.dtype.itemsize]
