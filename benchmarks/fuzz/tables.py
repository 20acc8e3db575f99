"""Annotation files of every format that outlark reads; what is read must survive being written."""

import json
import random
import zlib
from dataclasses import replace
from itertools import repeat

from fuzz.mutation import changed_bytes, changed_list, changed_value, odd_text
from fuzz.target import Target, expect
from outlark.annotations import FORMATS, About, Annotation, read_annotations, write_annotations
from outlark.errors import OutlarkError

#: The kind of an input is its first byte: a file name ending, and the format if it is named.
READ = [*((f.suffix, None) for f in FORMATS.values()), *((".txt", name) for name in FORMATS)]
#: Formats that keep all digits, most of them, or only the notes of one class.
EXACT, ROUNDED, PART = ("jsonl", "parquet"), ("csv",), ("dcase",)
WRITTEN = [name for name, format in FORMATS.items() if format.writes]
#: What the last digit that the rounded ones keep stands for.
LAST_DIGIT = {"start_s": 1e-9, "end_s": 1e-9, "score": 1e-6, "runner_up_score": 1e-6, "low_hz": 1e-3, "high_hz": 1e-3}
#: Where a row is cut into cells.
BETWEEN = (b"\t", b",", b";", b" ")
ANNOTATIONS = (
    Annotation(start_s=0.5, end_s=0.75, label="song", recording="night.wav", verdict="known", score=2.5,
               runner_up="call", runner_up_score=1.25, reason="song 2.50 ≥ 2.00", sample_rate=22050, channel=1,
               low_hz=2000.0, high_hz=8000.5, more={"Site": "pond"}),
    Annotation(start_s=1.0, end_s=1.1, recording="night.wav", verdict="unknown", score=0.5, sample_rate=22050),
    Annotation(start_s=2.0, end_s=2.0, recording="b c.wav", label='=a "b",\tc', verdict="ambiguous", runner_up="d",
               sample_rate=8000),
)  # fmt: skip
DURATIONS = {"night.wav": 60.0, "b c.wav": 30.0}
#: Formats that are only read, and tables of other programs.
OTHERS = {
    "textgrid": b'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = 2\ntiers? <exists>\n'
                b'size = 1\nitem []:\n    item [1]:\n        class = "IntervalTier"\n        name = "s"\n'
                b'        xmin = 0\n        xmax = 2\n        intervals: size = 1\n'
                b'        intervals [1]:\n            xmin = 0\n            xmax = 2\n            text = "a"\n',
    "simple-seq": b"onset_s,offset_s,label\n0.5,0.75,a\n1.0,1.5,b\n",
    "timit": b"0 100 h#\n100 250 sh\n",
    "csv": b"\xef\xbb\xbfFile;Start (s);End (s);Species\r\na.wav;0,5;1,25;EATO\r\nb.wav;1;2;\r\n",
    "raven": b"Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tHigh Freq (Hz)\tBegin File\t"
             b"File Offset (s)\tSpecies\n1\tSpectrogram 1\t1\t0.5\t0.75\t100\t900\ta.wav\t0.5\tEATO\n",
    "audacity": b"0.5\t0.75\tsong\n\\\t2000\t8000\n1\t2\tcall\n",
    "dcase": b"Audiofilename,Starttime,Endtime,Q,R\na.wav,0.5,0.75,POS,UNK\n",
}  # fmt: skip


class Tables(Target):
    """Reads a file, by name or content; what was read is written in one of the formats, and read again."""

    name = "tables"

    def seeds(self) -> list[bytes]:
        """A file of every format that is written, with the format named and not; and some of other programs."""
        found = []
        for name in WRITTEN:
            path = self.folder / f"seed{FORMATS[name].suffix}"
            write_annotations(path, ANNOTATIONS, format=name, about=About(version="0"), durations=DURATIONS)
            found.append((name, path.read_bytes()))
        found += OTHERS.items()
        kinds = [(bytes([k]), name, body) for name, body in found for k in _kinds(name)]
        return [kind + body for kind, _, body in kinds] + [
            kind + body.decode().encode("utf-16") for kind, name, body in kinds if name in ("raven", "csv")
        ]

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        """Cells, rows, values of JSON, or bytes; now and then another format."""
        kind, body = data[:1] or b"\0", data[1:]
        if rng.random() < 0.03:
            kind = bytes([rng.randrange(len(READ))])
        how = rng.random()
        if how < 0.35 or b"\n" not in body:
            return kind + (_changed_json(body, rng) if how < 0.15 else changed_bytes(body, rng))
        return kind + b"\n".join(changed_list(body.split(b"\n"), rng, lambda row: _changed_row(row, rng)))

    def run(self, data: bytes) -> str:
        """What became of the file; what was read is the same after writing it."""
        suffix, format = READ[(data[0] if data else 0) % len(READ)]
        path = self.folder / f"a{suffix}"
        path.write_bytes(data[1:])
        try:
            table = read_annotations(path, format=format)
        except OutlarkError as error:
            expect(str(path) in str(error), "the message does not name the file")
            return f"{type(error).__name__}: {error}"
        self._there_and_back(table.annotations, WRITTEN[zlib.crc32(data) % len(WRITTEN)])
        return f"read as {table.format}"

    def _there_and_back(self, annotations: tuple[Annotation, ...], name: str) -> None:
        path = self.folder / f"again{FORMATS[name].suffix}"
        try:
            write_annotations(path, annotations, format=name)
        except OutlarkError:  # such as a format that needs the name of the recording
            return
        again = read_annotations(path, format=name).annotations
        if name in EXACT + ROUNDED:
            alike = len(annotations) == len(again) and all(map(_alike, annotations, again, repeat(name in EXACT)))
            expect(alike, f"not the same after {name}: {annotations!s:.5000} became {again!s:.5000}")
        elif name not in PART:
            kept = [one for one in annotations if one.verdict != "silence"]
            expect(len(again) in (len(kept), len(annotations)), f"{len(kept)} became {len(again)} through {name}")


def _kinds(name: str) -> list[int]:
    return [i for i, kind in enumerate(READ) if kind in ((FORMATS[name].suffix, None), (".txt", name))]


def _alike(one: Annotation, other: Annotation, exact: bool) -> bool:
    """Whether two annotations are the same but for their lines, the names of odd columns, and digits that were cut."""
    for name, least in LAST_DIGIT.items():
        a, b = getattr(one, name), getattr(other, name)
        if a != b and (exact or a is None or b is None or abs(a - b) > least):
            return False
    return _rest(one) == _rest(other)


def _rest(one: Annotation) -> Annotation:
    """What is neither a number nor a line."""
    more = {key.replace(" (more)", ""): text for key, text in one.more.items() if text}
    numbers = {name: 0.0 if name in ("start_s", "end_s") else None for name in LAST_DIGIT}
    return replace(one, line=None, more=more, **numbers)  # type: ignore[arg-type]


def _changed_row(row: bytes, rng: random.Random) -> bytes:
    if row.startswith(b"{"):
        return _changed_json(row, rng)
    between = max(BETWEEN, key=row.count) if rng.random() < 0.95 else rng.choice(BETWEEN)
    return between.join(changed_list(row.split(between), rng, lambda cell: _changed_cell(cell, rng)))


def _changed_cell(cell: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return changed_bytes(cell, rng)
    return odd_text(rng).encode("utf-8", "surrogateescape")


def _changed_json(body: bytes, rng: random.Random) -> bytes:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return changed_bytes(body, rng)
    return json.dumps(changed_value(value, rng)).encode()
