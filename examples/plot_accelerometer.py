"""Behaviours of a hen in the signal of an accelerometer: six bouts of each are labelled, and one kind is unknown.

The signal is simulated: three axes at 50 Hz, with gravity, gait, pecks, and a dust bath that nobody has labelled.

    python examples/plot_accelerometer.py --output demo
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from outlark import ArrayFrontEnd, FrameDetector, Segment

RATE, BOUT_S, REST_S = 50, 3.0, 2.5
COLOURS = {"walking": "#0072b2", "pecking": "#d55e00", None: "#999999"}


def bout(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Three seconds of one behaviour, in g, (samples, 3)."""
    t = np.arange(round(BOUT_S * rng.uniform(0.85, 1.15) * RATE)) / RATE
    pace, phase = rng.normal(1.0, 0.06), rng.uniform(0, 2 * np.pi)
    if kind == "walking":  # two steps a second: sway, surge and heave
        steps = 2 * np.pi * 2.0 * pace * t + phase
        move = np.column_stack([0.12 * np.sin(steps / 2), 0.15 * np.sin(steps), 0.22 * np.sin(2 * steps)])
    elif kind == "pecking":  # short forward strokes
        stroke = np.maximum(0.0, np.sin(2 * np.pi * 2.6 * pace * t + phase)) ** 12
        move = np.column_stack([0.05 * stroke, 0.9 * stroke, -0.5 * stroke])
    else:  # a dust bath: rolling and shaking
        shake = 2 * np.pi * 7.0 * pace * t + phase
        move = np.column_stack([0.5 * np.sin(shake), 0.2 * np.sin(1.3 * shake), 0.3 * np.cos(shake)])
    return move + rng.normal(0.0, 0.02, move.shape)


def day(kinds: list[str], seed: int) -> tuple[np.ndarray, list[Segment]]:
    """Bouts with rest in between, and where they are."""
    rng, pieces, segments, at = np.random.default_rng(seed), [], [], 0
    for kind in [*kinds, ""]:
        rest = rng.normal(0.0, 0.02, (round(REST_S * RATE), 3))
        piece = bout(kind, rng) if kind else rest[:0]
        start = at + len(rest)
        if kind:
            segments.append(Segment(start=start, end=start + len(piece), sample_rate=RATE, label=kind))
        pieces += [rest, piece]
        at = start + len(piece)
    return np.concatenate(pieces) + np.array([0.0, 0.0, 1.0]), segments  # gravity


def main(output: Path) -> None:
    signal, labelled = day(["walking", "pecking"] * 6, seed=0)
    front_end = ArrayFrontEnd(window_s=0.6, hop_s=0.1)  # a window holds more than one peck
    detector = FrameDetector(front_end).fit_recordings([signal], [labelled], RATE)
    test, truth = day(["pecking", "walking", "dust bath", "walking", "pecking", "dust bath"], seed=1)
    found = detector.detect(test, RATE)
    for segment in found:
        if segment.verdict != "silence":
            where = f"{segment.start_s:5.1f} {segment.end_s:5.1f}"
            print(f"{where} {segment.verdict:<10}{segment.label or ''}: {segment.reason}")

    figure, axes = plt.subplots(2, 1, figsize=(10, 4.5), sharex=True, height_ratios=[3, 1], layout="constrained")
    for axis, name in enumerate(("sway", "surge", "heave")):
        axes[0].plot(np.arange(len(test)) / RATE, test[:, axis] - (axis == 2) - axis * 1.5, lw=0.7)
        axes[0].text(0.2, 0.35 - axis * 1.5, name, fontsize=9)
    axes[0].set_ylabel("acceleration, g")
    axes[0].set_yticks([])
    for row, segments in ((1, truth), (0, [s for s in found if s.verdict != "silence"])):
        for s in segments:
            colour = COLOURS.get(s.label, COLOURS[None])
            axes[1].barh(row, s.end_s - s.start_s, left=s.start_s, height=0.7, color=colour)
            name = s.label or str(s.verdict)
            axes[1].text((s.start_s + s.end_s) / 2, row, name, ha="center", va="center", color="white", fontsize=8)
    axes[1].set_yticks([0, 1], ["found", "true"])
    axes[1].set_xlabel("time, s")
    output.mkdir(parents=True, exist_ok=True)
    path = output / "accelerometer.png"
    figure.savefig(path, dpi=130)
    print(f"picture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the figure")
    main(parser.parse_args().output)
