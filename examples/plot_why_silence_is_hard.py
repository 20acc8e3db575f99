"""Why silence is hard: class scores in notes and in the silence between them, as published and by default.

python examples/plot_why_silence_is_hard.py --output demo
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from outlark import FrameDetector, NoteDetector
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes

CLASSES = ("tuti-D", "tuti-F", "cach-Z")
NOTE, SILENCE, SHOWN_S = "#0072b2", "#d55e00", 4.0


def main(output: Path) -> None:
    known = notes(seed=0, counts=dict.fromkeys(CLASSES, 4))
    played = notes(seed=1, counts=dict.fromkeys(CLASSES, 4))
    recording, truth = concatenate(played, gap_s=0.3, edge_s=0.3, rng=np.random.default_rng(0))
    recording = recording + 1e-4 * np.random.default_rng(1).normal(size=len(recording))  # a quiet room
    figure, axes = plt.subplots(2, 1, figsize=(10, 4.6), sharex=True, layout="constrained")
    made = {"as published": FrameDetector.paper(), "by default": NoteDetector()}
    for ax, (name, detector) in zip(axes, made.items(), strict=True):
        detector.fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        scores = detector.scores(recording, SAMPLE_RATE)
        best = (scores.block.values / scores.layout.thresholds).max(axis=1)
        best = np.maximum(best, np.append(best[1:], 0.0))  # notes are scored at every second frame
        at = np.arange(len(best)) / scores.layout.frame_rate
        found = [s for s in detector.decide(scores) if s.label is not None]
        silent_s = len(recording) / SAMPLE_RATE - sum(s.end_s - s.start_s for s in truth)
        wrong_s = sum(s.end_s - s.start_s for s in found) - sum(
            max(0.0, min(s.end_s, t.end_s) - max(s.start_s, t.start_s)) for s in found for t in truth
        )
        for i, t in enumerate(truth):
            ax.axvspan(t.start_s, t.end_s, color=NOTE, alpha=0.2, lw=0, label=None if i else "notes")
        ax.plot(at, best, color="black", lw=0.8, label="best score / threshold")
        ax.axhline(1.0, color=SILENCE, lw=1.0, ls="--", label="accepted from here on")
        ax.set(title=f"Scores {name}: {wrong_s / silent_s:.0%} of the silence is taken for a note", xlim=(0.0, SHOWN_S))
        ax.set_ylabel("score / threshold")
        print(f"{name}: {wrong_s / silent_s:.0%} of {silent_s:.1f} s of silence is taken for a note")
    axes[1].set_xlabel("time, s")
    axes[1].legend(frameon=False, loc="upper right", ncols=3)
    output.mkdir(parents=True, exist_ok=True)
    path = output / "why_silence_is_hard.png"
    figure.savefig(path, dpi=130)
    print(f"picture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the figure")
    main(parser.parse_args().output)
