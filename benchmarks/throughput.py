"""Speed and memory of the whole system on long streams: made-up notes and noise at 22,050 Hz, and real recordings.

    python benchmarks/throughput.py                # an hour: some minutes
    python benchmarks/throughput.py --minutes 1    # a quick look

- "paper": HLDS, top layer, literal MDD-KM on 3 x 160 frames, the six rules. "all layers": the same front end with all
  layers and outlark's defaults behind it. "whole notes": `NoteDetector()`. All on made-up notes.
- "busy", "quiet" and "30 x 20", where the recordings are at hand (`real_streams`): `NoteDetector()` trained on 3 x 5
  syllables of a zebra finch, in its song and in a garden, which is quieter; and on 30 classes x 20 examples, in the
  same song, for a twentieth of the time.
- "plain": the paper as one would write it down, the 132-state Kalman filter, cho_solve and the rules, on a short
  stretch and with one thread. Its decisions are compared with those of "paper" on the same stretch.
- A stream uses one core; "two at once" is the sum of two recordings side by side, each in its own process. "ms/s" is
  processor time for a second of audio, which does not depend on what else the machine does as much as the clock does;
  "cost" is that of the row divided by that of "busy", or of "whole notes".
- Memory is the peak of a process of its own, everything included, for the whole stream and for a sixth of it.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import real_streams
import scipy
from scipy.fft import dct
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

import outlark
from outlark import MDDKM, model_file
from outlark.data.synthetic import KNOWN_CLASSES, SAMPLE_RATE, UNKNOWN_CLASSES, concatenate, notes
from outlark.detection.detector import NoteDetector
from outlark.estimators.hlds import PAPER_LAYERS, kalman_filter, system
from outlark.metrics.windows import aligned_table
from outlark.paper.decisions import UNDECIDED, decide
from outlark.paper.detector import FrameDetector
from outlark.paper.front_end import HLDSFrontEnd

WINDOW, HOP, LEAST, SURE = 96, 48, 35, 60
FRAMES_PER_CLASS = 160
#: Samples that are pushed at once: about as many as come from a file at a time.
PUSHED = 10 * SAMPLE_RATE
#: Frames that the plain transcription scores at once.
PLAIN_BLOCK = 4096
#: The longer run is this many times as long as the shorter one.
LONGER = 6
SYSTEMS: dict[str, Callable[[], NoteDetector]] = {
    "paper": FrameDetector.paper,
    "all layers": lambda: FrameDetector(HLDSFrontEnd()),
    "whole notes": NoteDetector,
}
PLAIN = "plain"
#: On real recordings; the last is slow and gets this share of the time.
REAL, SLOW_SHARE = ("busy", "quiet", "30 x 20"), 1.0 / 20.0


def examples(n_samples: int | None) -> tuple[list[np.ndarray], list[str]]:
    """Four clips of each known class; with `n_samples` together so long, the last ones cut or left out."""
    clips, labels = [], []
    for label in KNOWN_CLASSES:
        left = n_samples
        for note in notes(seed=1, counts={label: 4}):
            clip = note.samples[:left]
            left = None if left is None else left - len(clip)
            if len(clip) > WINDOW:
                clips.append(clip)
                labels.append(label)
    return clips, labels


def pattern() -> np.ndarray:
    """About 20 s: 24 known and unknown notes at 40 dB with gaps between them, and 8 s of noise alone. It is short so
    that making it takes less memory than the systems do."""
    rng = np.random.default_rng(0)
    some = notes(seed=2, counts=dict.fromkeys([*KNOWN_CLASSES, *UNKNOWN_CLASSES], 3))
    some = [some[i] for i in rng.permutation(len(some))]
    return concatenate(some, gap_s=0.35, edge_s=4.0, snr_db=40.0, rng=rng)[0]


def stream(seconds: float, name: str = PLAIN) -> Iterator[np.ndarray]:
    """The pattern, or real recordings, again and again, in blocks."""
    audio = real_streams.audio(name == "quiet") if name in REAL else pattern()
    n_left = round(seconds * SAMPLE_RATE)
    while n_left > 0:
        for at in range(0, min(len(audio), n_left), PUSHED):
            yield audio[at : min(at + PUSHED, n_left)]
        n_left -= len(audio)


def trained(name: str) -> NoteDetector:
    """Frames: about 160 for each class. Whole notes: four examples of each. Real ones: as the name says."""
    if name in REAL:
        return real_streams.many() if name == "30 x 20" else real_streams.few()
    n_samples = None if name == "whole notes" else FRAMES_PER_CLASS * HOP + WINDOW - HOP
    return SYSTEMS[name]().fit(*examples(n_samples), SAMPLE_RATE)


def run_system(name: str, seconds: float, model: str = "") -> dict[str, float]:
    """Time for the stream, without training; with a model file nothing is trained."""
    detector = model_file.load(model) if model else trained(name)
    blocks = list(stream(min(seconds, 120.0), name))  # made before, and repeated
    start, cpu_start = time.perf_counter(), time.process_time()
    live, n_segments, n_left = detector.stream(SAMPLE_RATE), 0, round(seconds * SAMPLE_RATE)
    while n_left > 0:
        for block in blocks:
            n_segments += len(live.push(block[: max(0, n_left)]).segments)
            n_left -= len(block)
    n_segments += len(live.finish().segments)
    return {
        "took": time.perf_counter() - start, "cpu": time.process_time() - cpu_start, "segments": n_segments,
    }  # fmt: skip


def run_plain(seconds: float) -> dict[str, float]:
    """The plain transcription from the first note on, and how many of its decisions the system shares."""
    detector, n_samples = trained("paper"), round(seconds * SAMPLE_RATE)
    audio = np.resize(pattern()[4 * SAMPLE_RATE :], n_samples)
    with threadpool_limits(1):  # its matrices are small: two threads wait for each other and are slower
        start = time.perf_counter()
        decisions = plain(audio, detector.class_model_)
        took = time.perf_counter() - start
    ours = np.full(len(decisions), UNDECIDED)
    for s in (s for s in detector.detect(audio, SAMPLE_RATE) if s.label is not None):
        ours[_frame(s.start, detector) : _frame(s.end, detector)] = detector.classes_.tolist().index(s.label)
    return {"took": took, "shared": float((ours == decisions).mean()), "decided": float((decisions >= 0).mean())}


def _frame(sample: int, detector: NoteDetector) -> int:
    return max(0, (sample - detector.layout_.offset_samples) // HOP)


def plain(audio: np.ndarray, model: MDDKM) -> np.ndarray:
    """Sec. 2 to 4 with the training frames, hyper-parameters and thresholds of the model: a decision for each frame."""
    frames = np.lib.stride_tricks.sliding_window_view(audio, WINDOW)[::HOP]
    spectra = np.abs(dct(frames, norm="ortho"))
    Z = kalman_filter(system(PAPER_LAYERS), spectra)[:, : PAPER_LAYERS[-1]]
    scores = np.empty((len(Z), len(model.classes_)))
    for c, description in enumerate(model.descriptions_):
        X = description.X
        factor = cho_factor(_kernel(model, X, X) + model.sigma_reg_**2 * np.eye(len(X)))
        for at in range(0, len(Z), PLAIN_BLOCK):
            k = _kernel(model, X, Z[at : at + PLAIN_BLOCK])
            d = model.sigma_**2 - np.sum(k * cho_solve(factor, k), axis=0)
            scores[at : at + PLAIN_BLOCK, c] = -0.5 * np.log(d / model.sigma_**2)
    return decide(scores, model.thresholds_, least=LEAST, sure=SURE)


def _kernel(model: MDDKM, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return model.sigma_**2 * np.exp(-cdist(A, B, "sqeuclidean") / model.length_scale_**2)


def in_a_process(name: str, seconds: float, model: str = "") -> dict[str, float]:
    """Run in a fresh process, for the sake of its peak memory."""
    print(f"{name}, {seconds:g} s of audio …", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--child", name, str(seconds), model]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def train_in_a_process(name: str, folder: Path) -> str:
    """The model file of a system; not here, because processes that are started from here count our peak as theirs."""
    model = str(folder / f"{name}.outlark")
    subprocess.run([sys.executable, __file__, "--train", name, model], check=True)
    return model


def measured(name: str, seconds: float, model: str = "") -> dict[str, float]:
    """One run, and the peak memory of this process."""
    result = run_plain(seconds) if name == PLAIN else run_system(name, seconds, model)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return result | {"MB": peak / (1024**2 if sys.platform == "darwin" else 1024)}


def table(systems: Sequence[str], minutes: float, plain_s: float, folder: Path) -> list[list[str]]:
    """Times real time, ratio to the plain transcription, processor time, peak memory, segments for each minute."""
    slow = in_a_process(PLAIN, plain_s)
    speed = plain_s / slow["took"]
    memory = [f"MB, {t:.3g} min" for t in (minutes / LONGER, minutes)]
    head = ["", "times real time", "two at once", "times plain", "ms/s", "cost", *memory, "segments/min"]
    rows = [head, [f"{PLAIN}, {plain_s:g} s", f"{speed:.2f}", "-", "1", "-", "-", "-", f"{slow['MB']:.0f}", "-"]]
    costs: dict[str, float] = {}
    for name in systems:
        seconds = 60 * minutes * (SLOW_SHARE if name == "30 x 20" else 1.0)
        model = train_in_a_process(name, folder)
        short, long = (in_a_process(name, t, model) for t in (seconds / LONGER, seconds))
        with ThreadPoolExecutor(2) as pool:
            pair = list(pool.map(in_a_process, [name] * 2, [seconds] * 2, [model] * 2))
        fast, both = seconds / long["took"], sum(seconds / one["took"] for one in pair)
        costs[name] = 1e3 * long["cpu"] / seconds
        cost = costs[name] / costs.get("busy", costs.get("whole notes", costs[name]))
        rows.append([
            name, f"{fast:.0f}", f"{both:.0f}", f"{fast / speed:.0f}", f"{costs[name]:.2f}", f"{cost:.2f}",
            f"{short['MB']:.0f}", f"{long['MB']:.0f}", f"{60 * long['segments'] / seconds:.0f}",
        ])  # fmt: skip
    print(
        f"the plain transcription and 'paper' agree on {100 * slow['shared']:.2f} % of the frames; it decides for a "
        f"class in {100 * slow['decided']:.0f} %\n"
    )
    return rows


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="of audio (default 60)")
    parser.add_argument("--plain-seconds", type=float, default=20.0, help="for the plain transcription (default 20)")
    every = [*SYSTEMS, *(REAL if real_streams.there() else ())]
    parser.add_argument("--systems", nargs="+", choices=(*SYSTEMS, *REAL), default=every, metavar="SYSTEM")
    parser.add_argument("--train", nargs=2, metavar=("SYSTEM", "MODEL"), help=argparse.SUPPRESS)
    parser.add_argument("--child", nargs=3, metavar=("SYSTEM", "SECONDS", "MODEL"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    if options.train:
        model_file.save(trained(options.train[0]), options.train[1])
        return
    if options.child:
        name, seconds, model = options.child
        print(json.dumps(measured(name, float(seconds), model)))
        return
    print(" ".join(["python benchmarks/throughput.py", *arguments]))
    versions = {"Python": platform.python_version()} | {m.__name__: m.__version__ for m in (outlark, np, scipy)}
    print(*(f"{name} {version}" for name, version in versions.items()), sep=", ")
    print(f"{os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        print(aligned_table(table(options.systems, options.minutes, options.plain_seconds, Path(folder))))


if __name__ == "__main__":
    main(sys.argv[1:])
