"""Tables larger than memory: files without a name hold what was put in, and are gone when nobody uses them."""

import os
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest

from outlark.errors import InputError
from outlark.maths import rows
from outlark.maths.rows import blocks, gathered, joined, on_disk, spooled


@pytest.fixture
def always_on_disk(monkeypatch):
    monkeypatch.setattr(rows, "IN_MEMORY", 0)
    monkeypatch.setattr(rows, "BLOCK_ROWS", 7)


@pytest.fixture
def mapped_file(tmp_path, rng):
    X = rng.normal(size=(50, 3))
    np.save(tmp_path / "X.npy", X)
    return X, np.load(tmp_path / "X.npy", mmap_mode="r")


def test_blocks_cover_all_rows_once(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_ROWS", 7)
    for n in (0, 1, 7, 20):
        assert np.concatenate([np.arange(n)[block] for block in blocks(n)] or [[]]).tolist() == list(range(n))


@pytest.mark.usefixtures("always_on_disk")
def test_memory_maps_and_their_views_are_on_disk(mapped_file):
    X, on_file = mapped_file
    assert on_disk(on_file)
    assert on_disk(np.asarray(on_file)[3:])
    assert not on_disk(X)
    assert not on_disk(on_file[[1, 2]])  # rows that were picked are in memory


def test_small_memory_maps_are_read(mapped_file):
    assert not on_disk(mapped_file[1])


@pytest.mark.usefixtures("always_on_disk")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_gathered_as_they_are_in_memory(mapped_file, tmp_path, rng, dtype):
    X = mapped_file[0].astype(dtype)
    np.save(tmp_path / "Y.npy", X)
    some = rng.permutation(50)[:30]
    found = gathered(np.load(tmp_path / "Y.npy", mmap_mode="r"), some, of=lambda Z: 2.0 * Z)
    assert on_disk(found)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, 2.0 * X[some])
    np.testing.assert_array_equal(gathered(X, some), X[some])


@pytest.mark.usefixtures("always_on_disk")
def test_tables_are_joined_where_the_first_one_is(mapped_file):
    X, on_file = mapped_file
    more = X[:4] + 1.0
    for table in (X, on_file):
        whole = joined(table, more)
        assert on_disk(whole) == (table is on_file)
        np.testing.assert_array_equal(whole, np.concatenate([X, more]))


def test_nothing_is_left_behind(tmp_path, monkeypatch, rng):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    X = rng.normal(size=(10, 2))
    found = spooled(iter([X[:4], X[4:]]))
    np.testing.assert_array_equal(found, X)
    assert list(tmp_path.iterdir()) == []
    assert not found.flags.writeable


def test_nothing_to_keep_is_an_error():
    with pytest.raises(InputError, match="no samples; give at least one block"):
        spooled(iter([]))


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="there is no /dev/full here, a disk without room")
def test_a_full_disk_is_told_with_what_to_do(monkeypatch):
    with Path("/dev/full").open("wb") as full:
        monkeypatch.setattr("tempfile.TemporaryFile", lambda: nullcontext(full))
        with pytest.raises(InputError, match=r"cannot store .*No space left.* after 10,000 rows.*TMPDIR"):
            spooled(iter([np.ones((10_000, 10))]))
        with suppress(OSError):  # what is still to be written
            full.close()
