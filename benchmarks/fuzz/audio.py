"""Sound files: damaged headers, odd chunks, sizes that cannot be."""

import io
import random
import struct
import zlib

import numpy as np
import soundfile

from fuzz.mutation import WHOLE, changed_bytes, changed_list, odd_text
from fuzz.target import Target, expect
from outlark.audio.recording import Recording
from outlark.errors import OutlarkError
from outlark.review.identity import true_length

NAMES = ("a.wav", "20231024_123456.WAV", "5E9089F0.flac", "SITE_20230230_240000_+9999.ogg", "b.mp3", "c", "d.aiff",
         "e.txt", "Z_20231024T123456-0400.wav", "20231024_123456Z.w64", "a.raw")  # fmt: skip
#: Container and encoding of the seeds.
KINDS = (
    ("WAV", "PCM_16"), ("WAV", "PCM_U8"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("WAV", "ULAW"), ("WAV", "IMA_ADPCM"),
    ("WAVEX", "PCM_16"), ("RF64", "PCM_16"), ("W64", "PCM_16"), ("AIFF", "PCM_16"), ("AU", "PCM_16"), ("CAF", "DOUBLE"),
    ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III"),
)  # fmt: skip
GUANO = "GUANO|Version: 1.0\nTimestamp: 2023-10-24T12:34:56+02:00\nTE: 10\nSite Name: pond\nSerial: 7"
COMMENT = "Recorded at 12:34:56.789 24/10/2023 (UTC+2) by AudioMoth 24F3190361DA539A"
#: More than this in one input is not looked at; a small file can hold it only by compression.
MOST_SAMPLES = 2**22


class Audio(Target):
    """Reads files as every command does: header, texts of the recorder, all samples, and from the middle."""

    name = "audio"

    def seeds(self) -> list[bytes]:
        """One small file of each kind, and WAVs with the chunks that recorders write."""
        files = [_written(kind, encoding) for kind, encoding in KINDS]
        plain = _chunks(files[0])
        extra = [
            _chunk(b"guan", GUANO.encode()),
            _chunk(b"LIST", b"INFO" + _chunk(b"ICMT", COMMENT.encode() + b"\0") + _chunk(b"IART", b"me")),
            _chunk(b"bext", bytes(602)),
            _chunk(b"junk", bytes(28)),
        ]
        files += [_joined(b"RIFF", [*plain[:1], one, *plain[1:]]) for one in extra]
        ds64 = _chunk(b"ds64", struct.pack("<QQQI", 2**33, 2**33, 2**32, 0))
        data = b"data" + b"\xff" * 4 + plain[-1][8:]
        return [*files, _joined(b"RF64", [ds64, plain[0], data]), files[0][:20], files[0][:44], b"RIFF", b"fLaC", b""]

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        """Chunks of a WAV, or bytes, mostly of the header."""
        if data[:4] in (b"RIFF", b"RF64", b"BW64") and rng.random() < 0.6:
            start = rng.choice((b"RIFF", b"RF64", b"BW64")) if rng.random() < 0.05 else data[:4]
            return _joined(start, changed_list(_chunks(data), rng, lambda one: _odd_chunk(one, rng)))
        return changed_bytes(data, rng, 200 if rng.random() < 0.8 else None)

    def run(self, data: bytes) -> str:
        """What became of the file; whatever is read is finite, and from the middle it is the same."""
        path = self.folder / NAMES[zlib.crc32(data) % len(NAMES)]
        path.write_bytes(data)
        try:
            audio = Recording(path)
            said = "undated" if audio.facts.began is None else "dated"
            whole = _read(audio, 0)
            middle = len(whole) // 2
            if audio.seekable and middle and len(whole) < MOST_SAMPLES:
                expect(np.array_equal(_read(audio, middle), whole[middle:]), "other samples from the middle")
            true_length(path)
        except OutlarkError as error:
            return f"{type(error).__name__}: {error}"
        return f"read, {said}"


def _read(audio: Recording, first: int) -> np.ndarray:
    found: list[np.ndarray] = [np.empty(0)]
    for block in audio.blocks(1000, first=first):
        expect(np.isfinite(block).all(), "a sample that is not finite")
        found.append(block)
        if 1000 * len(found) > MOST_SAMPLES:
            break
    return np.concatenate(found)


def _written(kind: str, encoding: str) -> bytes:
    samples = 0.5 * np.sin(np.arange(600) / 5)
    file = io.BytesIO()
    rate = 48000 if encoding == "OPUS" else 8000
    columns = np.column_stack([samples, -samples]) if encoding in ("PCM_24", "VORBIS") else samples
    soundfile.write(file, columns, rate, format=kind, subtype=encoding)
    return file.getvalue()


# ----------------------------------------------------------------- chunks of WAV


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def _chunks(data: bytes) -> list[bytes]:
    """The chunks, each with its head, as far as they can be told apart."""
    found, at = [], 12
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        found.append(data[at : at + 8 + size + size % 2])
        at += len(found[-1])
    return found


def _joined(start: bytes, chunks: list[bytes]) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    size = 0xFFFFFFFF if start == b"RF64" else len(body)
    return start + struct.pack("<I", size) + body


def _odd_chunk(one: bytes, rng: random.Random) -> bytes:
    """Another size, another content, or another chunk."""
    how = rng.randrange(5)
    if how == 0:
        return one[:4] + struct.pack("<I", rng.choice(WHOLE) % 2**32) + one[8:]
    if how == 1:
        return one[:8] + changed_bytes(one[8:], rng, 30)
    if how == 2 and one[:4] in (b"guan", b"LIST"):
        words = one[8:].replace(
            rng.choice((b"10", b"2023", b"12:34:56", b"+02:00", b"UTC+2", b"pond", b":")), _odd(rng)
        )
        return _chunk(one[:4], words)
    if how == 3:
        return _chunk(rng.choice((b"LIST", b"guan", b"bext", b"fact", b"ds64", b"cue ", b"data", b"fmt ")), _odd(rng))
    return changed_bytes(one, rng, 16)


def _odd(rng: random.Random) -> bytes:
    return odd_text(rng).encode("utf-8", "surrogateescape")
