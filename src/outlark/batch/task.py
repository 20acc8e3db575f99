"""What a run is to do, in words that a file and another process understand."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlark.batch.identity import arithmetic
from outlark.errors import ModelFileError
from outlark.files.places import NOT_REGULAR, is_endless
from outlark.version import __version__

DETECT, DECIDE = "detect", "decide"
#: How files of scores end.
SCORES = ".scores"
#: How outlark's own tables of each file end; `outlark.annotations.FORMATS["csv"].suffix`, which is slow to import.
ROWS = ".outlark.csv"
#: The folder in an output folder that holds the journal, the locks, and what is not finished.
WORKSHOP = ".outlark"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is done to every file, and where the results go.

    Attributes
    ----------
    verb : "detect" or "decide"
        From recordings, or from scores that were kept.
    model, output : str
        Paths.
    model_sha256 : str
    formats : tuple of str
        Of the tables to write; names of `outlark.annotations.FORMATS`.
    verdicts : tuple of str
        The segments to write.
    decisions : dict
        Parameters of `Decisions` in place of those of the model.
    channel : int or None
        Counted from 1; None for the mean of all.
    keep_scores : bool
    thresholds : tuple of float or None
        Of the classes, in their order, in place of those of the model; None where it keeps its own, and for all.
    """

    model: str
    model_sha256: str
    output: str
    formats: tuple[str, ...]
    verdicts: tuple[str, ...]
    verb: str = DETECT
    decisions: Mapping[str, Any] = field(default_factory=dict)
    channel: int | None = None
    keep_scores: bool = False
    thresholds: tuple[float | None, ...] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What the content of the results depends on, to the last digit, besides the recording."""
        thresholds = {} if self.thresholds is None else {"thresholds": list(self.thresholds)}
        return {
            "version": __version__,
            "model_sha256": self.model_sha256,
            "decisions": dict(self.decisions),
            "channel": self.channel,
            "verdicts": list(self.verdicts),
            **thresholds,
            "arithmetic": arithmetic(),
        }

    @property
    def workshop(self) -> Path:
        return Path(self.output, WORKSHOP)


def sha256_of(path: str | Path) -> str:
    """The digest of a model file, which stands for the model in all that is written."""
    if is_endless(path):
        raise ModelFileError(f"{path}: {NOT_REGULAR}")
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror}); give the path of a model that outlark saved"
        raise ModelFileError(message) from error
