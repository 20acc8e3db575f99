"""The page that `outlark summary --figure` draws, of a simulated season: three notes of two species at five sites.

The counts are drawn at random around a course of the season and of the day, half an hour in each hour that the
recorders were on, with a week in which one site fell silent and one in which the batteries were empty everywhere.

    python examples/plot_a_season.py --output demo
"""

import argparse
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from outlark.commands import figures
from outlark.commands.summary_figure import summary_figure
from outlark.commands.tally import AnalysedRecording, Notes, Tally

SITES = {"creek": 1.0, "meadow": 0.25, "old orchard": 1.6, "pine ridge": 0.6, "pond": 0.9}
#: Notes per hour at best, day and hour when it is best, and how many days and hours around.
CLASSES = {
    "cach-Z": (14.0, 12, 7.0, 18.0, 2.2),
    "tuti-D": (6.0, 30, 6.0, 14.0, 1.4),
    "tuti-F": (9.0, 45, 19.0, 12.0, 1.6),
}
FIRST, DAYS, ON = datetime(2024, 3, 25), 61, (*range(4, 11), *range(17, 22))
SECONDS = 1800.0


def recording(site: str, day: int, hour: int, rng: np.random.Generator) -> tuple[AnalysedRecording, Notes]:
    """Half an hour, and what was found in it."""
    began = FIRST + timedelta(days=day, hours=hour)
    where = AnalysedRecording(recording=f"{site}/{began:%Y%m%d_%H%M%S}.wav", site=site, began=began, seconds=SECONDS)
    labels: list[str | None] = [None] * int(rng.poisson(4.0 + 3.0 * (hour < 8)))
    for name, (best, best_day, best_hour, days, hours) in CLASSES.items():
        course = np.exp(-(((day - best_day) / days) ** 2) - ((hour - best_hour) / hours) ** 2)
        bout = rng.gamma(1.0)  # notes come in bouts
        labels += [name] * int(rng.poisson(0.5 * best * SITES[site] * course * bout))
    verdicts = ["unknown" if label is None else "known" for label in labels]
    return where, Notes(labels, verdicts, (SECONDS * rng.random(len(labels))).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    rng, tally = np.random.default_rng(0), Tally()
    for site in SITES:
        for day in range(DAYS):
            if 34 <= day < 38 or (site == "pond" and 20 <= day < 27):
                continue
            for hour in ON:
                tally.add(*recording(site, day, hour, rng))
    picture = folder / "a_season.png"
    figures.save_figure(summary_figure(tally), picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
