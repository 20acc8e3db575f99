"""Annotation files: Raven, Audacity, Kaleidoscope, BirdNET, DCASE, outlark's own, and others through extras.

`read_annotations` and `write_annotations` are all that the rest of outlark needs; docs/formats.md says what each format
keeps. `annotation.py` has the `Annotation`; `formats.py` lists the formats, recognises, reads and writes them.
"""

from outlark.annotations.annotation import About, Annotation, Table
from outlark.annotations.formats import FORMATS, Format, read_annotations, write_annotations

__all__ = ["FORMATS", "About", "Annotation", "Format", "Table", "read_annotations", "write_annotations"]
