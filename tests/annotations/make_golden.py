"""Makes the golden files anew: ``python -m tests.annotations.make_golden`` in the root of the repository.

A difference in them is a difference that users see: say so in CHANGELOG.md.
"""

from pathlib import Path

from outlark.annotations import FORMATS, write_annotations
from tests.annotations.made_marks import ABOUT, ANNOTATIONS, DURATIONS

FOLDER = Path(__file__).parent / "golden"
#: The bytes of Parquet are pyarrow's affair, and differ from version to version.
NAMES = [name for name, format in FORMATS.items() if format.writes and name != "parquet"]

if __name__ == "__main__":
    for name in NAMES:
        path = FOLDER / f"night{FORMATS[name].suffix}"
        write_annotations(path, ANNOTATIONS, format=name, about=ABOUT, durations=DURATIONS)
