"""HLDS as a bank of filters: how its states answer to a click and to modulations of a band, by layer.

python examples/plot_hlds_filters.py --output demo
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from outlark import HLDS

FRAMES, AT, FRAME_S = 4096, 200, 48 / 22050


def main(output: Path) -> None:
    click = np.zeros((FRAMES, 96))  # the bands of the paper; the click is in the lowest eight
    click[AT, :8] = 1.0
    hlds = HLDS(output="all").fit(click)
    names = ["level0", "slope0", "curvature0"]
    columns = [hlds.get_feature_names_out().tolist().index(name) for name in names]
    responses = hlds.transform(click)[:, columns]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    time_ms = 1e3 * FRAME_S * (np.arange(FRAMES) - AT)
    frequency = np.fft.rfftfreq(FRAMES, FRAME_S)
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.85, responses.shape[1]))
    for response, name, colour in zip(responses.T, names, colours, strict=True):
        shown = response / np.abs(response).max()
        axes[0].plot(time_ms, shown, color=colour, lw=1.2, label=name.rstrip("0"))
        gain = np.abs(np.fft.rfft(response))
        axes[1].loglog(frequency[1:], gain[1:], color=colour, lw=1.2)
    axes[0].set(xlim=(-10, 60), xlabel="time after a click, ms", ylabel="response (peak 1)", title="Impulse responses")
    axes[1].set(xlabel="modulation frequency, Hz", ylabel="gain", title="Frequency responses")
    axes[1].set_ylim(1e-3, None)
    axes[0].legend(frameon=False, fontsize=9)
    output.mkdir(parents=True, exist_ok=True)
    path = output / "hlds_filters.png"
    figure.savefig(path, dpi=130)
    print(f"picture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the figure")
    main(parser.parse_args().output)
