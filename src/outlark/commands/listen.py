"""Live sound, from a pipe or a sound device, and the segments in it as soon as they are final."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from outlark.audio.sound import check_channel, mono
from outlark.detection.detector import NoteDetector
from outlark.errors import AudioError, InputError
from outlark.segments import Segment

#: Sample formats, little-endian, and their bytes.
SAMPLE_BYTES = {"int16": 2, "int24": 3, "int32": 4, "float32": 4}


class PCM:
    """Turns bytes into samples of interleaved channels; incomplete samples wait for the rest.

    `bytes_each` are the bytes of one sample of all channels, `left_over` those that do not make a sample yet.

    >>> pcm = PCM("int16", channels=2)
    >>> pcm.push(b"\\x00\\x40\\x00\\x00\\x00")
    array([[16384,     0]], dtype=int16)
    >>> pcm.left_over, pcm.push(b"\\x80\\x01\\x00")
    (1, array([[-32768,      1]], dtype=int16))
    """

    def __init__(self, kind: str, channels: int = 1) -> None:
        self.kind, self.channels = kind, channels
        self.bytes_each = SAMPLE_BYTES[kind] * channels
        self.n_samples = 0
        self._held = b""

    @property
    def left_over(self) -> int:
        return len(self._held)

    def push(self, piece: bytes) -> np.ndarray:
        """The samples that the piece completes, (n, channels)."""
        held = self._held + piece
        whole = len(held) - len(held) % self.bytes_each
        self._held = held[whole:]
        samples = self._numbers(held[:whole]).reshape(-1, self.channels)
        if self.kind == "float32":
            self._check(samples)
        self.n_samples += len(samples)
        return samples

    def _numbers(self, held: bytes) -> np.ndarray:
        if self.kind != "int24":
            return np.frombuffer(held, np.dtype(self.kind).newbyteorder("<"))
        # left-justified in four bytes: full scale as for int32
        wide = np.zeros((len(held) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(held, np.uint8).reshape(-1, 3)
        return wide.view("<i4").ravel()

    def _check(self, samples: np.ndarray) -> None:
        good = np.isfinite(samples).all(axis=1)
        if not good.all():
            at = self.n_samples + int(good.argmin())
            raise InputError(f"sample {at} is NaN or infinite; is the sound really {self.kind}, little-endian?")


#: Bytes read at once; a pipe gives what it has.
PIECE = 2**16
#: Pieces that may wait, so that a file is not read faster than it is analysed.
WAITING = 16
#: Seconds after which a waiting thread wakes up, so that Ctrl-C works on every system.
WAKE_S = 0.2


class Inlet:
    """A queue of pieces of sound, until they end or somebody stops it.

    `put` and `end` may be called from any thread and from a signal handler; what was put before the end comes out.

    >>> import io
    >>> inlet = Inlet()
    >>> inlet.feed(io.BytesIO(b"abcd").read)
    >>> list(inlet)
    [b'abcd']
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[bytes | Exception | None] = SimpleQueue()
        self._room = threading.Semaphore(WAITING)

    def feed(self, read: Callable[[int], bytes]) -> None:
        """Start a thread that reads to the end."""
        threading.Thread(target=self._feed, args=(read,), daemon=True).start()

    def _feed(self, read: Callable[[int], bytes]) -> None:
        try:
            while True:
                self._room.acquire()
                piece = read(PIECE)
                if not piece:
                    return self.end()
                self.put(piece)
        except OSError as error:
            self.end(error)

    def put(self, piece: bytes) -> None:
        self._queue.put(piece)

    def end(self, error: Exception | None = None) -> None:
        """No more pieces; an error is raised where they are consumed."""
        self._queue.put(error)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                found = self._queue.get(timeout=WAKE_S)
            except Empty:
                continue
            if found is None:
                return
            if isinstance(found, Exception):
                raise found
            self._room.release()
            yield found


class Listener:
    """Turns raw sound into segments: those that `NoteDetector.detect` finds in the same samples."""

    def __init__(self, detector: NoteDetector, pcm: PCM, sample_rate: int, channel: int | str = "mix") -> None:
        if not detector.front_end_.is_sound:
            raise InputError("this model is for series of numbers, not sound; use detector.stream(…) in Python")
        self._stream = detector.stream(sample_rate)
        self._pcm, self._channel = pcm, channel
        check_channel(channel, pcm.channels)

    @property
    def duration_s(self) -> float:
        """Of the sound so far."""
        return self._stream.n_samples / self._stream.sample_rate

    def segments(self, pieces: Iterable[bytes]) -> Iterator[Segment]:
        """Each segment once it is final; the last ones when the pieces end."""
        try:
            for piece in pieces:
                yield from self._stream.push(mono(self._pcm.push(piece), self._channel)).segments
        except (InputError, OSError):
            # what was analysed until then is still valid
            yield from self._stream.finish().segments
            raise
        yield from self._stream.finish().segments


#: The name of the system's default device.
USUAL = "default"


def _sounddevice() -> Any:
    try:
        return import_module("sounddevice")
    except ImportError:
        raise AudioError(
            "sound devices need the package sounddevice; install it with: pip install sounddevice. "
            "Or pipe raw sound in, as in: arecord -t raw -f S16_LE -r 22050 | outlark listen MODEL --rate 22050"
        ) from None
    except OSError as error:
        raise AudioError(
            f"the package sounddevice cannot find PortAudio ({error}); install it, as in: apt install libportaudio2"
        ) from None


def devices() -> str:
    """A list of the sound devices, as text."""
    return str(_sounddevice().query_devices())


def usual_rate(device: str) -> int:
    """The default sample rate of a device."""
    found = _asked(device, "asked for its rate", lambda library, name: library.query_devices(name, "input"))
    return round(found["default_samplerate"])


@contextmanager
def recorded(inlet: Inlet, device: str, *, sample_rate: int, channels: int, kind: str) -> Iterator[list[str]]:
    """Feed raw sound from a device to the inlet; yields a list of troubles so far, such as lost samples.

    `device` is a name, part of one, or a number, as `devices` lists them; or "default".
    """
    troubles: list[str] = []

    def heard(sound: Any, frames: int, time: Any, status: Any) -> None:
        if status and str(status) not in troubles:
            troubles.append(str(status))
        inlet.put(bytes(sound))

    def opened(library: Any, name: str | int | None) -> Any:
        stream = library.RawInputStream(
            sample_rate, device=name, channels=channels, dtype=kind, callback=heard, finished_callback=inlet.end
        )
        stream.start()
        return stream

    with closing(_asked(device, f"opened at {sample_rate} Hz with {channels} channels of {kind}", opened)):
        yield troubles


def _asked(device: str, done: str, ask: Any) -> Any:
    library = _sounddevice()
    name = None if device == USUAL else int(device) if re.fullmatch(r"\d{1,9}", device) else device
    try:
        return ask(library, name)
    except (library.PortAudioError, ValueError) as error:
        raise AudioError(
            f"the sound device {device!r} cannot be {done} ({error}); see 'outlark listen --list-devices', or try "
            "other values of --rate, --channels and --dtype"
        ) from None
