"""What a recording costs beyond its sound, and a class with many examples.

    python benchmarks/small_files.py                                # 500 recordings of .1 s; 100, 300 and 1,000 notes
    python benchmarks/small_files.py --files 2000 --repeats 3 --examples --against ../older/src --folder /mnt/disk

Recordings are noise (PCM 16), searched by ``outlark detect -j 1`` with a model of three classes of five examples, in
--folder. --against names the sources of another state of the code, which takes turns with this one; on a shared machine
only the ratios within one run say something. Start-up is that of a run over one recording. Flushes are calls of
`fsync`, in all processes.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import soundfile
from chaos_ground import save_model

from outlark import NoteDetector
from outlark.data.synthetic import SAMPLE_RATE, notes

HERE = Path(__file__).parents[1] / "src"
SECONDS = 0.1
#: Python runs this at the start of every process that finds it on its path, workers included.
COUNTED = """
import os
flush = os.fsync
def counted(file):
    with open({log!r}, "ab", buffering=0) as log:
        log.write(b".")
    flush(file)
os.fsync = counted
"""


class Cost(NamedTuple):
    """Of one run of the command, in seconds."""

    wall: float
    cpu: float
    flushes: float = 0.0


def detect(source: Path, folder: Path, recordings: Path, log: Path | None = None) -> Cost:
    """Run the command, with the sources of one state of the code."""
    output, path = folder / "found", [str(source)]
    shutil.rmtree(output, ignore_errors=True)
    if log is not None:
        log.parent.mkdir(exist_ok=True)
        log.write_bytes(b"")
        (log.parent / "sitecustomize.py").write_text(COUNTED.format(log=str(log)))
        path.append(str(log.parent))
    command = [sys.executable, "-m", "outlark", "detect", folder / "model.outlark", recordings, "-o", output]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*map(str, command), "-j", "1", "--quiet"], env=env, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if len(list(output.glob("*.outlark.csv"))) < len(os.listdir(recordings)):
        raise SystemExit("not every recording has its table")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, 0.0 if log is None else log.stat().st_size)


def save_recordings(folder: Path, n: int) -> Path:
    """Noise, n times a tenth of a second."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for i in range(n):
        samples = 0.01 * rng.standard_normal(round(SECONDS * SAMPLE_RATE))
        soundfile.write(folder / f"{i:06}.wav", samples, SAMPLE_RATE, subtype="PCM_16")
    return folder


def compare(folder: Path, n: int, repeats: int, sources: dict[str, Path]) -> None:
    """Print the median cost of each state of the code; they take turns."""
    save_model(folder / "model.outlark")
    one, many = save_recordings(folder / "one", 1), save_recordings(folder / "many", n)
    flushes = {name: detect(source, folder, many, folder / "site/log").flushes for name, source in sources.items()}
    starts: dict[str, list[Cost]] = {name: [] for name in sources}
    wholes: dict[str, list[Cost]] = {name: [] for name in sources}
    for _ in range(repeats):
        for name, source in sources.items():
            starts[name].append(detect(source, folder, one))
            wholes[name].append(detect(source, folder, many))
    print("| recordings of .1 s | code | whole run, s | CPU s | start-up, s | ms each | CPU ms each | fsyncs each |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for name in sources:
        whole = Cost(*(median(values) for values in zip(*wholes[name], strict=True)))
        start = Cost(*(median(values) for values in zip(*starts[name], strict=True)))
        each, cpu_each = (1000 * (a - b) / n for a, b in zip(whole[:2], start[:2], strict=True))
        seconds = f"{whole.wall:.1f} | {whole.cpu:.1f} | {start.wall:.1f} | {each:.1f} | {cpu_each:.1f}"
        print(f"| {n:,} | {name} | {seconds} | {flushes[name] / n:.2f} |")
    if len(sources) > 1:
        ratios = [now.wall / then.wall for now, then in zip(*reversed(wholes.values()), strict=True)]
        print(f"\nwhole run, this code / the other, pair by pair: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(flush=True)


def cost_of_training(n: int) -> float:
    """Processor seconds for one class of n examples."""
    known = notes(counts={"tuti-D": n})
    clips, labels = [note.samples for note in known], [note.label for note in known]
    start = time.process_time()
    NoteDetector().fit(clips, labels, SAMPLE_RATE)
    return time.process_time() - start


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--against", type=Path, help="sources (src) of another state of the code")
    parser.add_argument("--folder", type=Path, help="for recordings and results: it decides which disk is measured")
    parser.add_argument("--examples", type=int, nargs="*", default=[100, 300, 1000])
    given = parser.parse_args(args)
    sources = {"other": given.against, "this": HERE} if given.against else {"this": HERE}
    with TemporaryDirectory(dir=given.folder) as folder:
        compare(Path(folder), given.files, given.repeats, sources)
    if given.examples:
        print("| examples of one class | training, CPU s |\n|---:|---:|")
    for n in given.examples:
        print(f"| {n:,} | {cost_of_training(n):.1f} |", flush=True)


if __name__ == "__main__":
    main()
