"""Model files: damaged bytes, and files that are whole but hold what no training gives."""

import random
import zlib
from pathlib import Path

import numpy as np

from fuzz.mutation import changed_bytes, changed_value
from fuzz.target import Target, expect
from outlark import MDDKM, PKNN, NoteDetector
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.errors import InputError, ModelFileError, OutlarkError
from outlark.features.array import ArrayFrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.files.container import read, write
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector
from outlark.storage.model_file import load, load_estimator, save

RATE = 8000
#: One in so many of those that work is saved again, which takes as long as loading it.
SAVED = 4
FRAMES = MDDKM(metric="euclidean", sigma_reg="condition", condition=1e6, max_samples=20)
DETECTORS = {
    "notes": NoteDetector,
    "notes, 20 bands": lambda: NoteDetector(NoteFrontEnd(n_bands=20, change=0.0, shifts_s=[0.0])),
    "HLDS": lambda: FrameDetector(HLDSFrontEnd(output=(0, 2)), FRAMES, gap_s=0.2),
    "array": lambda: FrameDetector(ArrayFrontEnd(window_s=0.01), FRAMES, Rules(activity_db=None)),
}
ESTIMATORS = (MDDKM(), MDDKM(outlier_label=-9, max_samples=3), PKNN(random_state=0))
#: Values at the limits of what an array may hold.
ODD = (0, 1, -1, 2, 127, 1e-300, 1e300, 1e18, float("nan"), float("inf"), -float("inf"))


class Models(Target):
    """Loads a file as detector or estimator; what is loaded must work, and can be saved."""

    name = "models"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._sound = 0.01 * np.random.default_rng(0).normal(size=(RATE // 5, 2))

    def seeds(self) -> list[bytes]:
        """A file for each front end and each class model."""
        path, found = self.folder / "seed.outlark", []
        for model in [*(_trained(name) for name in DETECTORS), *map(_fitted, ESTIMATORS)]:
            save(model, path)
            found.append(path.read_bytes())
        return found

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        """The header or an array of a whole file, with a digest that fits; or bytes."""
        if rng.random() < 0.25:
            return changed_bytes(data, rng, 3000 if rng.random() < 0.8 else None)
        path = self.folder / "mutated.outlark"
        path.write_bytes(data)
        try:
            header, arrays = read(path)
            if rng.random() < 0.5 and arrays:
                name = rng.choice(sorted(arrays))
                arrays = _changed_arrays(arrays, name, rng)
            else:
                header = changed_value(header, rng)  # type: ignore[assignment]
            write(path, header, arrays)
        except (InputError, ModelFileError, TypeError):
            return changed_bytes(data, rng)
        return path.read_bytes()

    def run(self, data: bytes) -> str:
        """What became of the file."""
        path = self.folder / "a.outlark"
        path.write_bytes(data)
        try:
            try:
                model = load(path)
                self._detect(model)
            except ModelFileError as error:
                if "class model alone" not in str(error):
                    raise
                model = load_estimator(path)
                scores = model.class_scores(np.zeros((2, model.n_features_in_)))
                expect(not np.isnan(scores).any(), "scores that are NaN")
            if zlib.crc32(data) % SAVED == 0:
                save(model, path)
        except OutlarkError as error:
            expect("more memory than there is" not in str(error), "asks for too much memory")
            return f"{type(error).__name__}: {error}"
        return f"a working {type(model).__name__}"

    def _detect(self, model: NoteDetector) -> None:
        channels = self._sound if isinstance(model.front_end_, ArrayFrontEnd) else self._sound[:, 0]
        segments = model.detect(channels, model.sample_rate_)
        expect(all(np.isfinite(segment.score) for segment in segments), "a score that is not finite")


def _trained(name: str) -> NoteDetector:
    examples = notes(counts={"tuti-D": 2, "tuti-F": 2})
    clips = [resample(note.samples, SAMPLE_RATE, RATE)[: RATE // 10] for note in examples]
    if name == "array":
        clips = [np.column_stack([clip, np.roll(clip, 3)]) for clip in clips]
    return DETECTORS[name]().fit(clips, [note.label for note in examples], RATE)


def _fitted(model: MDDKM | PKNN) -> MDDKM | PKNN:
    X = np.random.default_rng(0).normal(size=(8, 2))
    return model.fit(X, ["a", "b"] * 4)


def _changed_arrays(arrays: dict[str, np.ndarray], name: str, rng: random.Random) -> dict[str, np.ndarray]:
    found, array = dict(arrays), arrays[name].copy()
    how = rng.randrange(8)
    if how == 0:
        del found[name]
        return found
    if how == 1:
        found[rng.choice(sorted(arrays)) + rng.choice(("", "x"))] = array
        return found
    if how == 2:
        array = array[: rng.randrange(len(array) + 1)] if array.ndim else array[None]
    elif how == 3:
        array = array.reshape(rng.choice(((-1,), (1, -1), (-1, 1)))) if array.size else array[None]
    elif how == 4:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(("float32", "int64", "uint8", "bool", "float16")))
    elif array.size:
        at = rng.randrange(array.size)
        odd = rng.choice(ODD) if array.dtype.kind == "f" else rng.choice(ODD[:5])
        with np.errstate(all="ignore"):
            array.flat[at if how < 7 else slice(None)] = np.asarray(odd).astype(array.dtype)
    found[name] = array
    return found
