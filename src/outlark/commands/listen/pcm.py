"""Raw sound, as it comes through a pipe or from a sound device: bytes in pieces of any size to samples."""

import numpy as np

from outlark.errors import InputError

#: What a sample is stored as, little-endian, and how many bytes that takes.
KINDS = {"int16": 2, "int24": 3, "int32": 4, "float32": 4}
#: More channels than this is a mistake.
MOST_CHANNELS = 64


class PCM:
    """Bytes in, samples out. What is left of a sample that was cut in two waits for the rest.

    Parameters
    ----------
    kind : "int16", "int24", "int32" or "float32"
        All little-endian; int24 in three bytes.
    channels : int
        Which take turns.

    Attributes
    ----------
    bytes_each : int
        Of one sample of all channels.
    n_samples : int
        Of each channel, so far.
    left_over : int
        Bytes that do not make a sample yet.

    Examples
    --------
    >>> pcm = PCM("int16", channels=2)
    >>> pcm.push(b"\\x00\\x40\\x00\\x00\\x00")
    array([[16384,     0]], dtype=int16)
    >>> pcm.left_over, pcm.push(b"\\x80\\x01\\x00")
    (1, array([[-32768,      1]], dtype=int16))
    """

    def __init__(self, kind: str, channels: int = 1) -> None:
        if kind not in KINDS:
            raise InputError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
        if not isinstance(channels, int) or not 1 <= channels <= MOST_CHANNELS:
            raise InputError(f"channels={channels!r} must be a whole number from 1 to {MOST_CHANNELS}")
        self.kind, self.channels = kind, channels
        self.bytes_each = KINDS[kind] * channels
        self.n_samples = 0
        self._held = b""

    @property
    def left_over(self) -> int:
        return len(self._held)

    def push(self, piece: bytes) -> np.ndarray:
        """The samples that the piece completes, (n, channels), as `outlark.audio.sound.mono` takes them."""
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
        # left-justified in four bytes, so that full scale is that of int32
        wide = np.zeros((len(held) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(held, np.uint8).reshape(-1, 3)
        return wide.view("<i4").ravel()

    def _check(self, samples: np.ndarray) -> None:
        good = np.isfinite(samples).all(axis=1)
        if not good.all():
            at = self.n_samples + int(good.argmin())
            raise InputError(f"sample {at} is NaN or infinite; is the sound really {self.kind}, little-endian?")
