"""Tables of labels: Raven, Audacity, Kaleidoscope, BirdNET, DCASE, outlark's own, and others through extras.

`read_table` and `write_table` are all that other parts need; docs/formats.md says what each format keeps and loses.
"""

from outlark.annotations.marks import About, Mark, Table
from outlark.annotations.tables import FORMATS, Format, read_table, write_table

__all__ = ["FORMATS", "About", "Format", "Mark", "Table", "read_table", "write_table"]
