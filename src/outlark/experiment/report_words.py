"""What the report of an experiment says in words: the protocol, what differs from the paper, where it was run."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version

from outlark.experiment.protocol import Protocol
from outlark.experiment.results import Results
from outlark.experiment.tables import is_synthetic
from outlark.version import __version__

MADE_UP = (
    "The recordings of the paper are not public. These notes are made up; numbers on them are not the paper's numbers."
)
PAPER_LINK = "https://arxiv.org/abs/2108.12857"


def protocol_words(results: Results) -> list[str]:
    """The experiment as it was run, in sentences."""
    protocol, data = results.protocol, results.data
    one = protocol.n_train == 1
    known = (
        f"{protocol.n_known} classes, others for each seed,"
        if data.known is None
        else f"the {len(data.known)} known classes ({', '.join(data.known)})"
    )
    said = [
        f"For each seed, {protocol.n_train} {'note' if one else 'notes'} of each of {known} "
        f"{'is' if one else 'are'} drawn at random, and every method learns from the same ones.",
        "The other notes follow one another in one test clip, in random order: notes of known classes, to be found and "
        "named, and notes of all other classes, which are out of distribution (OOD).",
        "F is measured on sliding windows of 96 samples at 22,050 Hz (4.4 ms), where a note that is found late costs "
        "windows, and on whole notes, each of which counts as what most of its windows were called.",
    ]
    if data.grouped:
        said.append(
            "Training and test notes are never of the same group: notes of the groups that train are not tested on."
        )
    elif not is_synthetic(data):
        said.append("It is not told which notes are of one bird or recording, so training and test may share some.")
    return said


def change_words(protocol: Protocol) -> list[str]:
    """What differs from the experiment of the paper, one sentence for each setting."""
    said = {
        "n_train": f"{protocol.n_train} training notes of each known class in place of {Protocol().n_train}",
        "gap_s": f"{protocol.gap_s:g} s of silence between the test notes in place of none",
        "snr_db": f"white noise over training and test clips, {_number(protocol.snr_db)} dB below the notes",
        "reverb_s": f"{protocol.reverb_s:g} s of reverberation over the test clip",
        "contamination": f"{protocol.contamination} of the training notes of each class are of an unknown class",
        "imbalance": f"the first known class has {protocol.imbalance} times the training notes of the others",
        "n_known": f"{protocol.n_known} known classes where the data set does not name them",
        "n_unknown": f"{protocol.n_unknown} unknown classes where the data set does not name the known ones",
        "max_test": f"at most {protocol.max_test} test notes of each class",
    }
    return [said.get(name, f"{name} = {value}") for name, value in protocol.changes().items()]


def seed_words(seeds: Sequence[int]) -> str:
    """Seeds in few words.

    >>> seed_words([1, 2, 3]), seed_words([1, 5, 7]), seed_words([4])
    ('1 to 3', '1, 5, 7', '4')
    """
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def version_words() -> list[tuple[str, str]]:
    """Programs and machine, each with its version."""
    return [
        ("outlark", __version__),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in ("numpy", "scipy", "scikit-learn")),
        ("platform", platform.platform()),
        ("processors", str(os.cpu_count())),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
