"""What a table of each format looks like: a few marks, written by the writer itself."""

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from outlark.annotations import FORMATS, Format, Mark, write_table

#: The package that each extra brings.
PACKAGES = {"parquet": "pyarrow", "aoef": "soundevent", "formats": "crowsetta"}
MARKS = (
    Mark(
        start_s=0.5, end_s=0.75, label="song", recording="night.wav", verdict="known", score=2.5, runner_up="call",
        runner_up_score=1.25, reason="song 2.50 ≥ 2.00; next call 1.25", sample_rate=22050,
    ),
    Mark(
        start_s=1.0, end_s=1.1, recording="night.wav", verdict="unknown", score=0.5, sample_rate=22050,
        reason="best score 0.50 (song) < 2.00",
    ),
)  # fmt: skip


def is_ready(format: Format) -> bool:
    """Whether all is installed that the format needs.

    >>> is_ready(FORMATS["raven"])
    True
    """
    return format.extra is None or find_spec(PACKAGES[format.extra]) is not None


def example(name: str) -> str | None:
    """The text of a small table; None for formats that are only read, are no text, or are not ready.

    >>> print(example("audacity"), end="")
    0.5	0.75	song 2.50
    1.0	1.1	unknown 0.50
    """
    format = FORMATS[name]
    if not format.writes or name == "parquet" or not is_ready(format):
        return None
    with TemporaryDirectory() as folder:
        path = Path(folder, f"night{format.suffix}")
        write_table(path, MARKS, format=name)
        return path.read_text(encoding="utf-8")
