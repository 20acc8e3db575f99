"""A trained detector, or an estimator, in one file: everything needed to give the same answers again.

Numbers and text only (`files.container`): nothing in a file is executed. `files.container.read` returns the header:
classes, settings, the training notes with their digests, and the versions of the libraries.
"""

import hashlib
import json
import os
from functools import partial
from typing import Any, cast

import numpy
import scipy
import sklearn

from outlark.detection.detector import NoteDetector
from outlark.detection.second_stage import Embedding, identity_of
from outlark.embeddings import BirdNET
from outlark.errors import ModelFileError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.pknn import PKNN
from outlark.files.container import about, read, write
from outlark.files.fields import NEWER
from outlark.storage import estimators as estimator_state
from outlark.storage.detectors import KIND, from_state, state_of
from outlark.version import __version__

#: Embeddings that are part of outlark, by their names in files.
OWN = {"outlark.embeddings.BirdNET": BirdNET}


def save(model: NoteDetector | MDDKM | PKNN, path: str | os.PathLike[str]) -> None:
    """Write a trained model to a file; the same model gives the same bytes.

    Parameters
    ----------
    model : NoteDetector, MDDKM or PKNN, fitted
        A detector with one of outlark's front ends and `MDDKM` or `PKNN` as class model, for `load`; or one of these
        estimators by itself, for `load_estimator`.
    path : str or path
        The folder must exist. An existing file is replaced in one step, once the new one is safe on disk; if that
        fails, it is still there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from outlark.data.synthetic import SAMPLE_RATE, notes
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


#: What a model file says beside all that scores depend on.
_NOT_SCORING = {"choice", "decisions", "threshold_sources", "training", "negatives", "lineage", "calibration"}


def scoring_sha256(detector: NoteDetector) -> str:
    """Identifies all of a detector that scores depend on: the same whatever its thresholds and decisions."""
    header, arrays = state_of(detector)
    kept = {name: value for name, value in header.items() if name not in _NOT_SCORING}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        if name != "layout/thresholds" and array is not None:
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(numpy.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def load(path: str | os.PathLike[str], embedding: Embedding | None = None) -> NoteDetector:
    """The detector that was saved: with the same libraries, its scores and segments are the same to the last bit.

    Parameters
    ----------
    path : str or path
    embedding : callable, optional
        The one that the model was trained with, unless it is BirdNET; a file holds its name and version, not its code.

    Returns
    -------
    NoteDetector
        With the parameters that were used, including those left to the defaults.
    """
    header, arrays = read(path)
    with about(path, "read", "save the model again"):
        return from_state(header, arrays, partial(_embedding, given=embedding))


def load_estimator(path: str | os.PathLike[str]) -> MDDKM | PKNN:
    """The estimator that was saved: with the same libraries, its scores are the same to the last bit.

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
            raise ModelFileError(f"it holds a {KIND}; read it with outlark.load, and take its class_model_")
        return estimator_state.from_state(header, arrays)


def _embedding(identity: dict[str, Any], given: Embedding | None) -> Embedding:
    """The embedding of this name and version: the given one, or one of `OWN`."""
    name, version = identity["name"], identity["version"]
    found: Any = given
    if given is None and name in OWN:
        try:
            found = OWN[name](**identity["parameters"])
        except TypeError as error:
            raise ModelFileError(f"its embedding {name} takes no such parameters ({error!s:.200}); {NEWER}") from None
    if found is None:
        raise ModelFileError(
            f"it was trained with the embedding {name!r:.200}, which is not part of outlark; in Python, give it to "
            "load(path, embedding=…)"
        )
    there = identity_of(found)
    if (there["name"], there["version"]) != (name, version):
        raise ModelFileError(
            f"it was trained with the embedding {name!r:.200}, version {version!r:.50}, but this is {there['name']!r}, "
            f"version {there['version']!r}, whose numbers mean something else; give that one, or train again"
        )
    return cast("Embedding", found)
