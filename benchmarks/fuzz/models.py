"""Model files: damaged bytes, and files that are whole but whose header holds what no training gives."""

import random
import zlib

import numpy as np

from fuzz.mutation import changed_bytes, changed_value
from fuzz.target import Target, expect
from outlark import MDDKM, PKNN, NoteDetector
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.errors import InputError, ModelFileError, OutlarkError
from outlark.features.array import ArrayFrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.files.container import read, write
from outlark.model_file import load, load_estimator, save
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector
from outlark.paper.front_end import HLDSFrontEnd

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


class Models(Target):
    """Loads a file as detector or estimator; what is loaded can be saved."""

    name = "models"

    def seeds(self) -> list[bytes]:
        """A file for each front end and each class model."""
        path, found = self.folder / "seed.outlark", []
        for model in [*(_trained(name) for name in DETECTORS), *map(_fitted, ESTIMATORS)]:
            save(model, path)
            found.append(path.read_bytes())
        return found

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        """The header of a whole file, with a digest that fits; or bytes."""
        if rng.random() < 0.25:
            return changed_bytes(data, rng, 3000 if rng.random() < 0.8 else None)
        path = self.folder / "mutated.outlark"
        path.write_bytes(data)
        try:
            header, arrays = read(path)
            write(path, changed_value(header, rng), arrays)  # type: ignore[arg-type]
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


def _trained(name: str) -> NoteDetector:
    examples = notes(counts={"tuti-D": 2, "tuti-F": 2})
    clips = [resample(note.samples, SAMPLE_RATE, RATE)[: RATE // 10] for note in examples]
    if name == "array":
        clips = [np.column_stack([clip, np.roll(clip, 3)]) for clip in clips]
    return DETECTORS[name]().fit(clips, [note.label for note in examples], RATE)


def _fitted(model: MDDKM | PKNN) -> MDDKM | PKNN:
    X = np.random.default_rng(0).normal(size=(8, 2))
    return model.fit(X, ["a", "b"] * 4)
