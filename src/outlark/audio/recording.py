"""`Recording`: the only reader of sound files, in blocks, excerpts and parts."""

import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile
from numpy.typing import ArrayLike

from outlark.audio.facts import Facts
from outlark.audio.header import RecorderTime, StreamFile, contents, recorder_site, recorder_time, text_chunks
from outlark.audio.sound import DECODED_AT_ONCE, Reblock, check_channel, check_sample_rate, first_bad, mono, one_channel
from outlark.errors import AudioError, InputError
from outlark.files.io import (
    NOT_REGULAR,
    as_os_errors,
    as_place,
    is_endless,
    is_url,
    length_of,
    name_of,
    opened,
    starts_a_model,
)
from outlark.plain_text import is_text

#: Gets all channels of a piece of a recording, (n, channels).
Heard = Callable[[np.ndarray], None]
#: Samples decoded at once near the end of a file that was cut.
LAST_CHUNK = 2**10
#: Bytes by which a file that is not a recording is recognised.
FILE_START = 2**12
#: Encodings that decode to the same numbers from any position; MP3, Vorbis and Opus do not.
SEEKABLE = frozenset({"PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"})


class Recording:
    """A sound file (path or URL), read block by block, in any format of libsndfile: WAV, FLAC, OGG, MP3, AIFF, …

    The file is open only while it is read; there is nothing to close. `channel` is "mix", the mean of all channels, or
    one of them, counted from 0 (`chosen`; None for the mean). `n_samples` is what is known before decoding; only if it
    is `seekable`, `blocks` may start anywhere. `format` and `subtype` are those of libsndfile, `what` both in words;
    `partial` says what is missing, or wrong with the header, and `remarks` what else is odd.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.zeros((2500, 2)), 8000)
    ...     recording = Recording(f"{folder}/a.wav")
    ...     [len(block) for block in recording.blocks(1000)]
    [1000, 1000, 500]
    >>> recording.sample_rate, recording.channels
    (8000, 2)
    """

    def __init__(self, path: str | PathLike[str], channel: int | str = "mix") -> None:
        self.path = as_place(path)
        with self._bytes() as file:
            if not file.read(1):
                raise AudioError(f"{self.path} is empty (0 bytes); copy or record it again")
            self._streams, self.partial = contents(file)
        self.remarks: tuple[str, ...] = ()
        with self._decoder() as file:
            try:
                self.sample_rate = check_sample_rate(file.samplerate)
                self.channels, self.n_samples = int(file.channels), int(file.frames)
                self.format, self.subtype = file.format, file.subtype
                self.what = f"{file.format_info}, {file.subtype_info}"
                self.seekable = bool(file.seekable()) and file.subtype in SEEKABLE
                self.chosen = check_channel(channel, self.channels)
            except InputError as error:
                raise AudioError(f"{self.path}: {error}") from error
            self._comment = str(file.copy_metadata().get("comment", ""))
        # seeking in a file that was cut fails, or ends elsewhere
        self.seekable &= not (self.format == "FLAC" and self.partial)
        self._lengths = [self.n_samples]
        if len(self._streams) > 1:
            self._join()

    def _join(self) -> None:
        """Take in the streams that follow the first, as far as they can be read as one with it."""
        for number in range(1, len(self._streams)):
            try:
                with self._decoder(number) as file:
                    like = (int(file.samplerate), int(file.channels), file.subtype)
                    n_samples = int(file.frames)
            except AudioError:
                like, n_samples = (0, 0, ""), 0
            if like != (self.sample_rate, self.channels, self.subtype):
                what = f"{like[0]} Hz, {like[1]} channels" if like[0] else "no sound that can be read"
                self.partial = (
                    f"joined from {len(self._streams)} recordings, and what follows after {self.duration_s:.3f} s was "
                    f"not read ({what}); split the file, or convert it to WAV"
                )
                break
            self._lengths.append(n_samples)
            self.n_samples += n_samples
        if len(self._lengths) > 1:
            self.remarks = (f"joined from {len(self._lengths)} recordings, which were read one after another",)

    @property
    def duration_s(self) -> float:
        return self.n_samples / self.sample_rate

    @cached_property
    def _texts(self) -> dict[str, str]:
        with self._bytes() as file:
            return text_chunks(file)

    @cached_property
    def clock(self) -> RecorderTime | None:
        """When it began, or None."""
        comment = self._texts.get("ICMT", self._comment)
        return recorder_time(self._texts.get("guan", ""), comment, name_of(self.path))

    @property
    def facts(self) -> Facts:
        """When and where it was made and what is odd about it, before its samples are read."""
        facts = Facts(site=recorder_site(self._texts.get("guan", "")), partial=self.partial, remarks=self.remarks)
        clock = self.clock
        if clock is None:
            return facts
        began, remarks = clock.began.isoformat(), (*clock.differences, *self.remarks)
        return replace(facts, began=began, source=clock.source, expansion=clock.expansion, remarks=remarks)

    # ------------------------------------------------------------ samples

    def blocks(self, n_samples: int, *, first: int = 0, heard: Heard | None = None) -> Iterator[np.ndarray]:
        """The recording from sample `first` on in blocks of `n_samples`, the last one shorter; float64, (n_samples,).

        `heard` gets all channels as they are decoded, (n, channels). A file that was cut short gives what it holds. If
        decoding fails, or at samples that are no sound, the blocks before are given first, to within 65,536 samples;
        the error says at which second.
        """
        if first and not self.seekable:
            raise AudioError(f"{self.path} can only be read from its start; convert it to WAV or FLAC")
        return self._recut(Reblock(n_samples), first, heard)

    def _recut(self, blocks: Reblock, first: int, heard: Heard | None) -> Iterator[np.ndarray]:
        failed = None
        try:
            for chunk in self.chunks(first, heard):
                yield from blocks.push(chunk)
        except AudioError as error:
            failed = error
        rest = blocks.finish()
        if rest is not None:
            yield rest
        if failed is not None:
            raise failed

    def chunks(self, first: int = 0, heard: Heard | None = None) -> Iterator[np.ndarray]:
        """The chosen channel from sample `first` on, as it is decoded."""
        done = first
        for x in self.decoded(first=first):
            one = self._chosen_channel(x, done)
            if heard is not None:
                heard(x)
            yield one
            done += len(one)

    def _chosen_channel(self, x: np.ndarray, at: int) -> np.ndarray:
        """The chosen channel of samples (n, channels) from `at` on, as finite numbers."""
        one = one_channel(x, self.chosen)
        bad = first_bad(one)
        if bad is not None:
            own = x[bad] if self.chosen is None else x[bad, [self.chosen]]
            value = own[first_bad(own) or 0]
            raise AudioError(
                f"{self.path}: sample {at + bad}, at {(at + bad) / self.sample_rate:.3f} s, is {value:g}, which is no "
                "sound; cut the file before, or set such samples to 0"
            )
        return one

    def part(self, start: int, end: int) -> np.ndarray:
        """Samples start … end - 1 of the chosen channel, as far as they exist: the same as those of `blocks`."""
        start = max(0, start)
        return self._chosen_channel(PartReader(self).part(start, end), start)

    def decoded(self, dtype: str = "float64", first: int = 0, size: int = DECODED_AT_ONCE) -> Generator[np.ndarray]:
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
        with self._decoder(number) as file:
            if first > file.frames:
                return
            if first:
                file.seek(first)
            while True:
                try:
                    x = file.read(LAST_CHUNK if cut else size, dtype=dtype, always_2d=True)
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

    # ------------------------------------------------------------ the file

    @contextmanager
    def _decoder(self, number: int = 0) -> Iterator[soundfile.SoundFile]:
        """Of one stream."""
        with self._bytes() as file:
            try:
                if self._streams:
                    source: Any = StreamFile(file, self._streams[number])
                else:
                    source = file if is_url(self.path) else for_decoder(self.path)
                with soundfile.SoundFile(source) as decoder:
                    yield decoder
            except (soundfile.SoundFileError, TypeError) as error:  # TypeError: a name that ends in .raw
                raise self._not_decoded(file, error) from error

    @contextmanager
    def _bytes(self) -> Iterator[BinaryIO]:
        """The file itself. The decoder takes an error of the network for the end of the file; here it is raised."""
        try:
            if is_endless(self.path):
                raise AudioError(f"{self.path} {NOT_REGULAR}")
            with opened(self.path) as file:
                source: Any = _Fetched(file) if is_url(self.path) else file
                try:
                    yield source
                finally:
                    if getattr(source, "error", None) is not None:
                        raise source.error
        except (FileNotFoundError, NotADirectoryError) as error:
            where = "URL" if is_url(self.path) else "path"
            raise AudioError(f"{self.path} does not exist; check the {where}") from error
        except OSError as error:
            raise self._not_opened(error) from error

    def _not_opened(self, error: OSError) -> AudioError:
        why = error.strerror or error
        if is_url(self.path):
            return AudioError(f"{self.path} cannot be fetched ({why}); check the connection and your permissions")
        if Path(self.path).is_dir():
            return AudioError(f"{self.path} is a folder; give the path of one sound file")
        return AudioError(f"{self.path} cannot be opened ({why}); check that you may read it")

    def _not_decoded(self, file: BinaryIO, error: Exception) -> AudioError:
        file.seek(0)
        start = file.read(FILE_START)
        if starts_a_model(start, length_of(file)):
            return AudioError(f"{self.path} is a model, not a recording; give sound files or folders of them")
        if is_text(start):
            return AudioError(f"{self.path} is a text file, not a sound file; give the recording it belongs to")
        return AudioError(
            f"{self.path} cannot be decoded as a sound file ({error}); convert it to WAV or FLAC, or get another copy"
        )


class _Fetched:
    """A file for the decoder that remembers errors, which the decoder itself cannot pass on."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell
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

    def write(self, data: bytes) -> int:
        """Never called, but soundfile requires it."""
        raise OSError("read only")


class ArrayRecording(Recording):
    """An array (n,) or (n, channels), read as if it were a file.

    >>> recording = ArrayRecording(np.arange(8.0), sample_rate=1000)
    >>> recording.part(5, 10), recording.n_samples
    (array([5., 6., 7.]), 8)
    """

    def __init__(self, samples: ArrayLike, sample_rate: int, channel: int | str = "mix") -> None:
        self._samples = mono(samples, channel)
        self.sample_rate, self.n_samples = check_sample_rate(sample_rate), len(self._samples)

    def part(self, start: int, end: int) -> np.ndarray:
        return self._samples[max(0, start) : end]


def as_recording(
    recording: ArrayLike | str | PathLike[str], sample_rate: int | None, channel: int | str = "mix"
) -> Recording:
    """A file, or an array with its sample rate."""
    if isinstance(recording, str | PathLike):
        return Recording(recording, channel)
    if sample_rate is None:
        raise InputError("the recording is an array; give its sample_rate, or the path of a file")
    return ArrayRecording(recording, sample_rate, channel)


class PartReader:
    """All channels of parts of a recording that are taken in order.

    Only the parts are read. If seeking is not exact (MP3, Ogg), everything before them is decoded, too, but once.
    """

    def __init__(self, recording: Recording, dtype: str = "float64") -> None:
        self._recording, self._dtype = recording, dtype
        self._none = np.empty((0, recording.channels), dtype)
        self._held, self._held_start = self._none, 0
        self._rest = recording.decoded(dtype)

    def part(self, start: int, end: int) -> np.ndarray:
        """Samples start … end - 1, as far as they exist, (n, channels); `start` must never decrease."""
        if self._recording.seekable:  # and then pieces may start anywhere
            self._held, self._held_start = self._none, start
            self._rest.close()
            self._rest = self._recording.decoded(self._dtype, start, min(DECODED_AT_ONCE, max(1, end - start)))
        pieces, at = [self._held], self._held_start + len(self._held)
        while at < end:
            if at <= start:
                pieces = []  # not needed any more
            piece = next(self._rest, self._none)
            if not len(piece):
                break
            pieces.append(piece)
            at += len(piece)
        held = np.concatenate([self._none, *pieces])
        held_start = at - len(held)
        self._held, self._held_start = held[max(0, start - held_start) :], max(start, held_start)
        return self._held[: max(0, end - self._held_start)]


def for_decoder(path: str | PathLike[str]) -> str | bytes:
    """A path for libsndfile: bytes if the name is not valid text.

    >>> for_decoder("café.wav"), for_decoder("caf\\udce9.wav")
    ('café.wav', b'caf\\xe9.wav')
    """
    text = os.fspath(path)
    return os.fsencode(text) if re.search("[\ud800-\udfff]", text) else text


def read(path: str | PathLike[str], channel: int | str = "mix") -> tuple[np.ndarray, int]:
    """A whole sound file: its samples, float64 of shape (n,), and its sample rate.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.array([0.5, -0.5]), 8000)
    ...     read(f"{folder}/a.wav")
    (array([ 0.5, -0.5]), 8000)
    """
    recording = Recording(path, channel)
    return np.concatenate([np.empty(0), *recording.chunks()]), recording.sample_rate
