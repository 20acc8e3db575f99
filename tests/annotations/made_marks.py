"""Annotations of every kind, for golden files and for whoever needs an example; and a table from its lines."""

from pathlib import Path

from outlark.annotations import About, Annotation

RATE = 22050
ABOUT = About(version="0.1.0", model_sha256="ab" * 32, settings={"activity_db": 6.0, "decoder": "rules"})


def found(start: int, end: int, recording: str = "site A/night_20260501_043000.wav", **rest) -> Annotation:
    """An annotation as the detector gives it, on whole samples."""
    return Annotation(start_s=start / RATE, end_s=end / RATE, recording=recording, sample_rate=RATE, **rest)


ANNOTATIONS = [
    found(0, 6600, verdict="silence", score=0.25, reason="activity -2.4 dB, less than 6 dB"),
    found(6600, 9261, label="tuti-D", verdict="known", score=2.5234567, runner_up="tuti-F", runner_up_score=1.75,
          reason="tuti-D 2.52 ≥ 2.19; next tuti-F 1.75"),
    found(11025, 12000, label="tuti-D", verdict="ambiguous", score=2.4, runner_up="tuti-F", runner_up_score=2.3,
          reason="between tuti-D (2.40 ≥ 2.19) and tuti-F (2.30 ≥ 2.20)"),
    found(22050, 24255, verdict="unknown", score=1.88, runner_up="tuti-F", runner_up_score=0.5,
          reason="best score 1.88 (tuti-D) < 2.12"),
    found(30000, 31000, label="=HYPERLINK(1)", verdict="known", score=3.0, channel=2, low_hz=2000.0, high_hz=8000.5),
    found(441, 4410, "site A/dawn, loud.wav", label='the "long" song', verdict="known", score=4.0),
    found(5000, 6000, "site A/dawn, loud.wav", label="Blåmes, sång", verdict="known", score=0.0),
]  # fmt: skip

#: Of their recordings, in the order in which Raven opens them.
DURATIONS = {"site A/night_20260501_043000.wav": 60.0, "site A/dawn, loud.wav": 60.0}


def table(folder: Path, *lines: str, name: str = "table.txt", end: str = "\n", encoding: str = "utf-8") -> Path:
    """A file of these lines."""
    path = folder / name
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def tabs(*cells: object) -> str:
    """A line with tabs between the cells."""
    return "\t".join(map(str, cells))
