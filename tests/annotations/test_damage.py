"""Files damaged at random: a table, or an AnnotationError that names the file; never another error."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outlark.annotations import FORMATS, read_annotations, write_annotations
from outlark.errors import AnnotationError
from tests.annotations.made_marks import ANNOTATIONS, DURATIONS
from tests.annotations.make_golden import NAMES

NEEDS = {"aoef": "soundevent", "parquet": "pyarrow"}
PIECES = st.sampled_from(
    [b"", b",", b"\t", b'"', b"\n", b"\r", b"\0", b"-", b"nan", b"1e999", b"{", b"null", b"\xff", b"99999"]
)


def read(blob, suffix, format):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a{suffix}")
        path.write_bytes(blob)
        try:
            table = read_annotations(path, format=format)
        except AnnotationError as error:
            said = str(error)
        else:
            said = str(table.path)
            assert all(0 <= annotation.start_s <= annotation.end_s for annotation in table.annotations)
        assert str(path) in said


@pytest.mark.parametrize("name", [*NAMES, "parquet"])
def test_damaged_files(name, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    path = tmp_path / "whole"
    write_annotations(path, ANNOTATIONS, format=name, durations=DURATIONS)
    whole = path.read_bytes()

    @settings(max_examples=80, deadline=None)
    @given(st.integers(0, len(whole)), st.integers(0, 40), PIECES, st.booleans(), st.booleans())
    def check(at, length, piece, cut, told):
        blob = whole[:at] + piece + (b"" if cut else whole[at + length :])
        read(blob, FORMATS[name].suffix if told else ".txt", None if told else name)

    check()


@example(b"\xfe\xff", None)
@example(b'{"outlark": {"schema": 1e999}}', None)
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([None, *NAMES]))
def test_any_bytes(blob, name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    read(blob, ".txt", name)
