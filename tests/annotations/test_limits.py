"""Small files that announce a lot, and things that are no files: refused at once, with the limit named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outlark.annotations import read_annotations, write_annotations
from outlark.annotations.annotation import taken_apart
from outlark.annotations.files import MAX_CELLS, MAX_COLUMNS, MAX_ROWS, Reading, number, sheet_of
from outlark.errors import AnnotationError

#: Seconds. What is refused takes milliseconds; what hung took minutes or never ended.
NEVER_S = 120


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("format", [None, "csv", "raven"])
def test_more_columns_than_a_table_has(tmp_path, format):
    path = written(tmp_path, "a.csv", ",".join(["start_s", "end_s", *["x"] * 3000]) + "\n1,2\n")
    with pytest.raises(AnnotationError, match=f"3,002 columns, at most {MAX_COLUMNS:,}"):
        read_annotations(path, format=format)


def test_names_that_look_like_those_that_are_given(tmp_path):
    path = written(tmp_path, "a.csv", "a,a (2),a,a\n1,2,3,4\n")
    assert sheet_of(Reading(path)).columns == ("a", "a (2)", "a (3)", "a (4)")


def test_rows_that_are_short_and_fill_the_memory(tmp_path):
    wide = ",".join(["start_s", "end_s", *(f"x{i}" for i in range(MAX_COLUMNS - 2))])
    rows = MAX_CELLS // MAX_COLUMNS + 1
    path = written(tmp_path, "a.csv", wide + "\n" + "1,2\n" * rows)  # less than a megabyte
    with pytest.raises(AnnotationError, match=f"{rows * MAX_COLUMNS:,} cells, at most {MAX_CELLS:,}"):
        read_annotations(path)


def test_parquet_of_few_bytes_and_many_rows(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    zeros = pyarrow.array([0.0] * 1_000_000)
    chunked = pyarrow.chunked_array([zeros] * 20)
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"start_s": chunked, "end_s": chunked}), path, compression="zstd")
    assert path.stat().st_size < 300_000
    with pytest.raises(AnnotationError, match=f"20,000,000 rows, at most {MAX_ROWS:,}"):
        read_annotations(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
@pytest.mark.parametrize(
    "command", ["inspect {}", "convert {} out --to csv", "evaluate {} {}", "train {} -o m", "detect {} {} -o out"]
)
def test_pipes_are_no_files(tmp_path, command):
    path = str(tmp_path / "fifo.csv")
    os.mkfifo(path)
    words = command.replace("{}", path).split()
    done = subprocess.run(
        [sys.executable, "-m", "outlark", *words], cwd=tmp_path, capture_output=True, text=True, timeout=NEVER_S
    )
    assert done.returncode in (1, 3), done.stderr
    assert "is a device or a pipe, not a file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(AnnotationError, match=r"a.csv cannot be written \(it is a device or a pipe, not a file\)"):
        write_annotations(tmp_path / "a.csv", [], format="csv")
    assert (tmp_path / "a.csv").is_fifo()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_beside_a_table_is_remarked(tmp_path):
    path = written(tmp_path, "a.labels.txt", "0.5\t1.0\tsong\n")
    os.mkfifo(tmp_path / "a.labels.txt.about.json")
    table = read_annotations(path)
    assert [annotation.label for annotation in table.annotations] == ["song"]
    assert any("is a device or a pipe" in remark for remark in table.remarks)


def test_long_cells_do_not_take_long():
    with pytest.raises(ValueError, match="is not a number"):
        number("1" * 1_000_000 + "x")
    assert taken_apart("a" + " or a" * 100_000)[1] is None
