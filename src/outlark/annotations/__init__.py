"""Annotation files: Raven, Audacity, Kaleidoscope, BirdNET, DCASE, outlark's own, and others through extras.

`read_table` and `write_table` are all that the rest of outlark needs; docs/formats.md says what each format keeps. An
annotation is a `Mark` (`annotation.py`); `formats.py` lists the formats and detects them; each format has its own file.
"""

from outlark.annotations.annotation import About, Mark, Table
from outlark.annotations.formats import FORMATS, Format
from outlark.annotations.read import read_table
from outlark.annotations.write import write_table

__all__ = ["FORMATS", "About", "Format", "Mark", "Table", "read_table", "write_table"]
