"""What came of a part of a recording, in a file: scores, block by block, so that a long recording is never in memory.

A zip file of arrays, as NumPy's ``.npz``; a member that is damaged is not read.
"""

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from outlark.detection.scores import ScoreBlock, joined_scores
from outlark.detection.scores_file import block_arrays, block_of
from outlark.errors import OutlarkError

#: Frames that are kept together, about a minute.
FRAMES = 2**15
_ABOUT = "about.json"


class DamagedPartError(OutlarkError):
    """A file of a part that is not there, or not what was written."""


class PartWriter:
    """Writes the scores of a part as they come; for use in a ``with`` block."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w")
        self._waiting: list[ScoreBlock] = []
        self._n_waiting = self._n_blocks = 0

    def add(self, block: ScoreBlock) -> None:
        """The next scores."""
        if len(block):
            self._waiting.append(block)
            self._n_waiting += len(block)
        if self._n_waiting >= FRAMES:
            self._write()

    def finish(self, about: Mapping[str, Any], second: dict[tuple[int, int], np.ndarray], spectra: np.ndarray) -> None:
        """All scores were added; what else there is to say of the part."""
        if self._waiting:
            self._write()
        self._add("spectra", spectra)
        self._add("second_at", np.array(list(second), dtype=np.int64).reshape(-1, 2))
        self._add("second", np.array(list(second.values())))
        self._zip.writestr(zipfile.ZipInfo(_ABOUT), json.dumps({**about, "blocks": self._n_blocks}))

    def _write(self) -> None:
        for name, array in block_arrays(joined_scores(self._waiting)).items():
            self._add(f"{self._n_blocks}.{name}", array)
        self._waiting, self._n_waiting = [], 0
        self._n_blocks += 1

    def _add(self, name: str, array: np.ndarray) -> None:
        # an entry of its own has no time, so that the same scores are the same bytes
        with self._zip.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)

    def __enter__(self) -> "PartWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()


class PartFile:
    """What a `PartWriter` wrote.

    Attributes
    ----------
    about : dict

    Raises
    ------
    DamagedPartError
        From all that reads it.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        with self._opened() as arrays:
            self.about: dict[str, Any] = json.loads(arrays.zip.read(_ABOUT))

    def blocks(self, n_classes: int) -> Iterator[ScoreBlock]:
        """The scores, about a minute at a time."""
        with self._opened() as arrays:
            of_block: list[dict[str, str]] = [{} for _ in range(self.about["blocks"])]
            for name in arrays.files:
                number, _, column = name.partition(".")
                if number.isdecimal():
                    of_block[int(number)][column] = name
            for names in of_block:
                yield block_of({column: arrays[name] for column, name in names.items()}, n_classes)

    def rest(self) -> tuple[dict[tuple[int, int], np.ndarray], np.ndarray]:
        """What a second stage made of the candidates, and the spectra for the bandwidth."""
        with self._opened() as arrays:
            places = ((start, end) for start, end in arrays["second_at"].tolist())
            return dict(zip(places, arrays["second"], strict=True)), arrays["spectra"]

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with np.load(self._path, allow_pickle=False) as arrays:
                yield arrays
        except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DamagedPartError(
                f"{self._path}: a part of a recording that can no longer be read ({error!s:.200}); give the same "
                "command again, and its recording is worked on from its start"
            ) from error
