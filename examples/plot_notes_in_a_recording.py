"""Notes in a recording: spectrogram, scores of whole notes, segments and what is really there.

The notes are synthetic stand-ins for those of the paper: three classes are known from four examples each, the others
were never heard.

    python examples/plot_notes_in_a_recording.py --output demo
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from outlark.experiment.synthetic import KNOWN, SAMPLE_RATE, UNKNOWN, concatenate, notes
from outlark.notes.detector import NoteDetector
from outlark.notes.segments import SILENCE

COLOURS = dict(zip(KNOWN, ("#0072b2", "#d55e00", "#009e73"), strict=True))
GREY = "#999999"


def draw_segments(axis, y, segments, label_of):
    """A bar for each segment, its name below it."""
    for s in segments:
        name, colour = label_of(s)
        if name:
            axis.broken_barh([(s.start_s, s.duration_s)], (y, 0.5), facecolor=colour, edgecolor="white")
            axis.text((s.start_s + s.end_s) / 2, y - 0.08, name, ha="center", va="top", fontsize=7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    examples = notes(seed=0, counts=dict.fromkeys(KNOWN, 4))
    detector = NoteDetector().fit([n.samples for n in examples], [n.label for n in examples], SAMPLE_RATE)
    rng = np.random.default_rng(4)
    played = notes(seed=3, counts=dict.fromkeys([*KNOWN, *UNKNOWN], 1))
    played = [played[i] for i in rng.permutation(len(played))]
    audio, truth = concatenate(played, gap_s=0.2, edge_s=0.3, snr_db=30.0, rng=rng)
    scores = detector.scores(audio, SAMPLE_RATE)
    segments = detector.decide(scores)
    for s in segments:
        if s.verdict != SILENCE:
            print(f"{s.start_s:6.3f} - {s.end_s:6.3f} s  {s.verdict:9}  {s.label or '':7}  {s.reason}")

    figure, (top, middle, bottom) = plt.subplots(3, sharex=True, figsize=(10, 6.5), height_ratios=(2, 1.6, 1.2))
    top.specgram(audio, NFFT=512, noverlap=384, Fs=SAMPLE_RATE, cmap="magma", vmin=-120, vmax=-40)
    top.set(ylabel="frequency, kHz", ylim=(0, 11000), title="A recording with three known and five unknown notes")
    top.set_yticks([0, 5000, 10000], ["0", "5", "10"])
    for c, name in enumerate(detector.classes_):
        shown = np.where(scores.block.values[:, c] > 0, scores.block.values[:, c], np.nan)
        middle.plot(scores.times_s[::2], shown[::2], color=COLOURS[name], label=name, linewidth=1.2)
        middle.axhline(scores.layout.thresholds[c], color=COLOURS[name], linestyle=":", linewidth=1)
    middle.set(ylabel="score of a note\nthat starts here", ylim=(0, None))
    middle.legend(loc="lower right", ncols=3, fontsize=8, title="dotted: thresholds", title_fontsize=8)
    draw_segments(
        bottom,
        1.0,
        [s for s in segments if s.verdict != SILENCE],
        lambda s: (s.label or s.verdict, COLOURS.get(s.label, GREY)),
    )
    draw_segments(bottom, 0.1, truth, lambda s: (s.label, COLOURS.get(s.label, GREY)))
    bottom.set(ylim=(-0.25, 1.65), xlabel="time, s", xlim=(0, len(audio) / SAMPLE_RATE))
    bottom.set_yticks([0.35, 1.25], ["truth", "found"])
    figure.align_ylabels()
    figure.tight_layout()
    picture = folder / "notes_in_a_recording.png"
    figure.savefig(picture, dpi=100)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
