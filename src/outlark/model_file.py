"""A trained detector, or an estimator, in one file: all that it takes to give the same answers again.

Numbers and text only (`outlark.container`): nothing in a file is run. `outlark.container.read` gives the header, for
whoever wants to look: classes, settings, the training notes with their digests, and the versions of the libraries.
"""

import os

import numpy
import scipy
import sklearn

from outlark.container import about, read, write
from outlark.errors import ModelFileError
from outlark.estimators import state as estimator_state
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.pknn import PKNN
from outlark.notes.detector import NoteDetector
from outlark.notes.state import KIND, from_state, state_of
from outlark.version import __version__


def save(model: NoteDetector | MDDKM | PKNN, path: str | os.PathLike[str]) -> None:
    """Write a trained model to a file; the same model gives the same bytes.

    Parameters
    ----------
    model : NoteDetector, MDDKM or PKNN, fitted
        A detector with a front end of outlark's own, and `MDDKM` or `PKNN` as describer; `load` reads it. Or one of
        these estimators by itself; `load_estimator` reads it.
    path : str or path
        The folder must exist. A file that is there is replaced, in one step, once the new one is safe on the disk.

    Raises
    ------
    InputError
        For a model that a file cannot hold; the message says which part of it.
    ModelFileError
        When the file cannot be written. What was there before is still there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from outlark.experiment.synthetic import SAMPLE_RATE, notes
    >>> known = notes(counts={"tuti-F": 3, "cach-Z": 3})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> with TemporaryDirectory() as folder:
    ...     save(detector, f"{folder}/titmouse.outlark")
    ...     again = load(f"{folder}/titmouse.outlark")
    >>> again.classes_.tolist(), again.training_[0]["label"]
    (['cach-Z', 'tuti-F'], 'tuti-F')
    """
    estimator = type(model) in estimator_state.KINDS.values()
    header, arrays = estimator_state.state_of(model) if estimator else state_of(model)
    libraries = {module.__name__: module.__version__ for module in (numpy, scipy)}
    versions = {"outlark": __version__, **libraries, "scikit-learn": sklearn.__version__}
    write(path, {**header, "versions": versions}, arrays)


def load(path: str | os.PathLike[str]) -> NoteDetector:
    """The detector that was saved: with the same libraries, its scores and segments are the same to the last bit.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    NoteDetector
        Its parameters are those that were used, also where they had been left to the defaults.

    Raises
    ------
    ModelFileError
        For anything but a whole, undamaged file with parts that this outlark knows; the message begins with the path.
    """
    header, arrays = read(path)
    with about(path, "read", "save the model again"):
        return from_state(header, arrays)


def load_estimator(path: str | os.PathLike[str]) -> MDDKM | PKNN:
    """The estimator that was saved: with the same libraries, its scores are the same to the last bit.

    Raises
    ------
    ModelFileError
        For anything but a whole, undamaged file with an `MDDKM` or `PKNN`; the message begins with the path.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> model = MDDKM(outlier_label="?").fit([[0.0], [0.2], [5.0], [5.1]], ["a", "a", "b", "b"])
    >>> with TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/two.outlark")
    ...     again = load_estimator(f"{folder}/two.outlark")
    >>> again.predict([[0.1], [5.0], [99.0]]).tolist()
    ['a', 'b', '?']
    """
    header, arrays = read(path)
    with about(path, "read", "save the model again"):
        if header.get("kind") == KIND:
            raise ModelFileError(f"it holds a {KIND}; read it with outlark.model_file.load, and take its describer_")
        return estimator_state.from_state(header, arrays)
