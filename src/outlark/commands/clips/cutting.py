"""Parts of a recording in files of their own, sample for sample; and safe names for such files."""

import os
import re
import unicodedata
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import soundfile

from outlark.audio.sound import CHUNK, AudioFile, for_decoder
from outlark.commands.excerpt import UNSURE
from outlark.errors import AudioError, InputError
from outlark.files.aside import written_aside
from outlark.plain_text import writable

#: Bits of the integers in which a recording is stored; lossy formats are not integers.
_BITS = {
    "PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32,
    "ALAC_16": 16, "ALAC_20": 24, "ALAC_24": 24, "ALAC_32": 32,
    "ULAW": 16, "ALAW": 16, "MS_ADPCM": 16, "IMA_ADPCM": 16,
}  # fmt: skip
_WAV = {8: "PCM_U8", 16: "PCM_16", 24: "PCM_24", 32: "PCM_32"}
_FLAC = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24"}
KINDS = ("wav", "flac")


class Storage(NamedTuple):
    """How a part is stored: "wav" or "flac", soundfile's subtype, the dtype of samples, and whether it is lossless."""

    kind: str
    subtype: str
    dtype: str
    exact: bool


def storage(kind: str | None, format: str, subtype: str) -> Storage:
    """How parts of a recording are stored; by default as FLAC if it is FLAC, and otherwise as WAV.

    >>> storage(None, "FLAC", "PCM_24"), storage("wav", "MP3", "MPEG_LAYER_III").subtype
    (Storage(kind='flac', subtype='PCM_24', dtype='int32', exact=True), 'FLOAT')
    """
    if kind is not None and kind not in KINDS:
        raise InputError(f"format={kind!r} must be one of {', '.join(KINDS)}")
    kind = kind or ("flac" if format == "FLAC" else "wav")
    bits = _BITS.get(subtype)
    dtype = "int32" if bits else "float64" if subtype == "DOUBLE" else "float32"
    if kind == "flac":
        return Storage(kind, _FLAC.get(bits or 0, "PCM_24"), dtype, exact=bits in _FLAC)
    return Storage(kind, _WAV[bits] if bits else "DOUBLE" if dtype == "float64" else "FLOAT", dtype, exact=True)


class Reel:
    """An open recording from which parts are taken in order.

    Only the parts are read. If seeking is not exact (MP3, Ogg), everything before them is decoded once.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.arange(100, dtype="int16"), 8000)
    ...     with Reel(f"{folder}/a.wav") as reel:
    ...         reel.save(reel.part(40, 50), f"{folder}/b.wav")
    ...     soundfile.read(f"{folder}/b.wav", dtype="int16")[0]
    array([40, 41, 42, 43, 44, 45, 46, 47, 48, 49], dtype=int16)
    """

    def __init__(self, path: str | os.PathLike[str], kind: str | None = None) -> None:
        audio = AudioFile(path)  # reports what is wrong with a file
        self.path, self.sample_rate, self.channels = audio.path, audio.sample_rate, audio.channels
        self._file = soundfile.SoundFile(for_decoder(self.path))
        self.storage = storage(kind, self._file.format, self._file.subtype)
        self._none = np.empty((0, self.channels), self.storage.dtype)
        self._held, self._held_start = self._none, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def part(self, start: int, end: int) -> np.ndarray:
        """Samples start … end - 1, as far as they exist, (n, channels); `start` must never decrease."""
        try:
            if self._file.format not in UNSURE:
                if start >= self._file.frames:
                    return self._none
                self._file.seek(start)
                return self._read(end - start)
            return self._decoded(start, end)
        except soundfile.SoundFileError as error:
            where = f"from {start / self.sample_rate:.3f} to {end / self.sample_rate:.3f} s"
            raise AudioError(f"{self.path}: cannot be read {where} ({error}); get another copy") from error

    def save(self, part: np.ndarray, path: str | os.PathLike[str], comment: str = "") -> None:
        """Write samples to a file, completely or not at all; its folder must exist."""
        path = Path(path)
        how = {"subtype": self.storage.subtype, "format": self.storage.kind.upper()}
        try:
            with (
                written_aside(path) as aside,
                soundfile.SoundFile(for_decoder(aside), "x", self.sample_rate, part.shape[1], **how) as file,
            ):
                if comment:
                    file.comment = writable(comment)
                file.write(part)
        except soundfile.SoundFileError as error:
            raise AudioError(
                f"{path} cannot be written as {self.storage.kind} with {part.shape[1]} channels at {self.sample_rate} "
                f"Hz ({error}); free some space, check your permissions, or choose the other format"
            ) from error

    def _read(self, n: int) -> np.ndarray:
        return self._file.read(n, dtype=self.storage.dtype, always_2d=True)

    def _decoded(self, start: int, end: int) -> np.ndarray:
        """By decoding on, always in the same pieces, because some decoders depend on them."""
        pieces, at = [self._held], self._held_start + len(self._held)
        while at < end:
            if at <= start:
                pieces = []  # not needed any more
            piece = self._read(CHUNK)
            if not len(piece):
                break
            pieces.append(piece)
            at += len(piece)
        held = np.concatenate([self._none, *pieces])
        held_start = at - len(held)
        self._held, self._held_start = held[max(0, start - held_start) :], max(start, held_start)
        return self._held[: max(0, end - self._held_start)]


#: Bytes of a name: systems allow 255, and something may have to be added.
LONGEST = 120
#: Names of devices on Windows, with any suffix.
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(\.|$)", re.IGNORECASE)
_FORBIDDEN = frozenset('/\\:*?"<>|')


def safe_name(text: str, longest: int = LONGEST) -> str:
    """A name for a file or folder, similar to the text and valid on every system.

    >>> safe_name("tuti-D"), safe_name("song/call?"), safe_name("../.."), safe_name("nul.wav"), safe_name(" ")
    ('tuti-D', 'song_call_', '_.._', '_nul.wav', '_')
    """
    plain = unicodedata.normalize("NFC", text)
    name = "".join("_" if letter in _FORBIDDEN or _unseen(letter) else letter for letter in plain).strip()
    if name.startswith(".") or _DEVICES.match(name):
        name = f"_{name}"
    # Windows drops dots and spaces at the end
    return _cut(name, longest).rstrip(". ") or "_"


class Names:
    """Hands out unique names, also for systems that ignore case.

    >>> names = Names()
    >>> names.new("Song"), names.new("song"), names.new("song.wav"), names.new("SONG")
    ('Song', 'song_2', 'song.wav', 'SONG_3')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, name: str, ending: str = "") -> str:
        """The name, with a number before the suffix if it is taken."""
        wanted, number = f"{name}{ending}", 1
        while _key(wanted) in self._taken:
            number += 1
            wanted = f"{name}_{number}{ending}"
        self._taken.add(_key(wanted))
        return wanted


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


def _unseen(letter: str) -> bool:
    """Control characters, lone surrogates, line breaks, changes of direction."""
    category = unicodedata.category(letter)
    return category.startswith("C") or category in ("Zl", "Zp")


def _cut(name: str, longest: int) -> str:
    return name.encode("utf-8")[:longest].decode("utf-8", errors="ignore")
