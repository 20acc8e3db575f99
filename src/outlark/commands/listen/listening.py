"""Live sound: pieces that come from another thread, and the segments in them as soon as they are final."""

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import NamedTuple

from outlark.audio.sound import check_channel, mono
from outlark.commands.listen.pcm import PCM
from outlark.detection.detector import NoteDetector
from outlark.errors import InputError
from outlark.features.array import ArrayFrontEnd
from outlark.segments import Segment

#: Bytes that are asked for at once; a pipe gives what it has.
PIECE = 2**16
#: Pieces that may wait; a file that is piped in is not read faster than it is worked on.
WAITING = 16
#: Seconds after which a thread that waits for a piece wakes up, so that Ctrl-C is noticed on every system.
WAKE_S = 0.2


class _End(NamedTuple):
    error: Exception | None


class Inlet:
    """Pieces of sound, in the order in which they come, until they end or somebody stops it.

    What was put in before the end is given out before the end. `put` and `end` may be called from any thread, and from
    a signal handler.

    Examples
    --------
    >>> import io
    >>> inlet = Inlet()
    >>> inlet.feed(io.BytesIO(b"abcd").read)
    >>> list(inlet)
    [b'abcd']
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[bytes | _End] = SimpleQueue()
        self._room = threading.Semaphore(WAITING)

    def feed(self, read: Callable[[int], bytes]) -> None:
        """Start a thread that reads until nothing comes any more."""
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
        """One more piece."""
        self._queue.put(piece)

    def end(self, error: Exception | None = None) -> None:
        """No more pieces; an error is raised where they are taken out."""
        self._queue.put(_End(error))

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                found = self._queue.get(timeout=WAKE_S)
            except Empty:
                continue
            if isinstance(found, _End):
                if found.error is not None:
                    raise found.error
                return
            self._room.release()
            yield found


class Listener:
    """Pieces of raw sound in, segments out: the same as `NoteDetector.detect` finds in the same samples.

    Parameters
    ----------
    detector : NoteDetector, fitted
    pcm : PCM
        What the bytes mean.
    sample_rate : int
    channel : "mix" or int
        The mean of all channels, or one of them, counted from 0.

    Attributes
    ----------
    duration_s : float
        Of what was heard so far.

    Examples
    --------
    >>> import numpy as np
    >>> from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
    >>> known = notes(counts={"tuti-F": 4, "cach-Z": 4})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> audio, _ = concatenate(notes(seed=1, counts={"cach-Z": 1}), edge_s=0.5, rng=np.random.default_rng(0))
    >>> raw = audio.astype("<f4").tobytes()
    >>> listener = Listener(detector, PCM("float32"), SAMPLE_RATE)
    >>> [s.label for s in listener.segments([raw[:1001], raw[1001:]]) if s.verdict == "known"]
    ['cach-Z']
    """

    def __init__(self, detector: NoteDetector, pcm: PCM, sample_rate: int, channel: int | str = "mix") -> None:
        if isinstance(detector.front_end_, ArrayFrontEnd):
            raise InputError("this model is for series of numbers, not for sound; use detector.stream(…) in Python")
        self._stream = detector.stream(sample_rate)
        self._pcm, self._channel = pcm, channel
        check_channel(channel, pcm.channels)

    @property
    def duration_s(self) -> float:
        return self._stream.n_samples / self._stream.sample_rate

    def segments(self, pieces: Iterable[bytes]) -> Iterator[Segment]:
        """Each segment once it is final; the last ones when the pieces end. What is left of a sample is left out."""
        try:
            for piece in pieces:
                yield from self._stream.push(mono(self._pcm.push(piece), self._channel)).segments
        except (InputError, OSError):
            # what was heard until then is worth as much as before
            yield from self._stream.finish().segments
            raise
        yield from self._stream.finish().segments
