"""The tables of real recordings, where they are at hand: OUTLARK_DATA or ../shared/data."""

import csv
import os
from pathlib import Path

import pytest

from outlark.annotations import read_annotations

DATA = Path(os.environ.get("OUTLARK_DATA", Path(__file__).parents[3] / "shared" / "data"))
TABLES = sorted(DATA.glob("*/*.selections.txt"))


@pytest.fixture(autouse=True)
def _data():
    if not TABLES:
        pytest.skip(f"no tables in {DATA}; OUTLARK_DATA names another folder")


def test_every_selection_is_read():
    for path in TABLES:
        table = read_annotations(path)
        assert table.format == "raven"
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        assert [annotation.label for annotation in table.annotations] == [row["Annotation"] for row in rows]
        assert [annotation.start_s for annotation in table.annotations] == [
            float(row["Begin Time (s)"]) for row in rows
        ]
        assert [annotation.high_hz for annotation in table.annotations] == [
            float(row["High Freq (Hz)"]) for row in rows
        ]


def test_tables_of_many_recordings_say_the_same():
    for path in sorted(DATA.glob("*/annotations.csv")):
        table = read_annotations(path)
        assert table.format == "csv"
        assert table.remarks == ("labels from the column 'label'",)
        for name in {annotation.recording for annotation in table.annotations}:
            here = [(m.start_s, m.end_s, m.label) for m in table.annotations if m.recording == name]
            there = read_annotations(path.parent / Path(name).with_suffix(".Table.1.selections.txt")).annotations
            assert here == [(m.start_s, m.end_s, m.label) for m in there]
