"""Notes in a recording: spectrogram, scores of whole notes, segments and what is really there.

The notes are synthetic stand-ins for those of the paper: three classes are known from four examples each, the others
were never heard.

    python examples/plot_notes_in_a_recording.py --output demo
"""

import argparse
from pathlib import Path

import numpy as np

from outlark.commands import figures, plot
from outlark.data.synthetic import KNOWN_CLASSES, SAMPLE_RATE, UNKNOWN_CLASSES, concatenate, notes
from outlark.detection.detector import NoteDetector
from outlark.segments import SILENCE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    examples = notes(seed=0, counts=dict.fromkeys(KNOWN_CLASSES, 4))
    detector = NoteDetector().fit([n.samples for n in examples], [n.label for n in examples], SAMPLE_RATE)
    rng = np.random.default_rng(4)
    played = notes(seed=3, counts=dict.fromkeys([*KNOWN_CLASSES, *UNKNOWN_CLASSES], 1))
    played = [played[i] for i in rng.permutation(len(played))]
    audio, truth = concatenate(played, gap_s=0.2, edge_s=0.3, snr_db=30.0, rng=rng)
    for s in detector.detect(audio, SAMPLE_RATE):
        if s.verdict != SILENCE:
            print(f"{s.start_s:6.3f} - {s.end_s:6.3f} s  {s.verdict:9}  {s.label or '':7}  {s.reason}")

    title = "A recording with three known and five unknown notes"
    picture = folder / "notes_in_a_recording.png"
    figures.save_figure(plot.draw_excerpt(detector, audio, sample_rate=SAMPLE_RATE, truth=truth, title=title), picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
