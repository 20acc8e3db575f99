"""Digests of what the commands write, to see at once whether a change of the code changes a result.

    python tools/golden.py              # compare with tools/golden.json (make golden); exit code 1 if anything differs
    python tools/golden.py --write      # store the digests, after a change of results that is wanted
    python tools/golden.py --against REV   # run REV, too, on this machine, and compare with it

Five models (default, as published, with negatives, calibrated, confirmed by an embedding) search six recordings; what
is compared are the models, the annotation files in three formats, and the answers of the commands. Matrix products and
vectorised functions differ in their last bit between processors, so they use the instructions of one (`SAME_BITS`).
Where the digests of golden.json still differ on an unchanged checkout, `--against` tells.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
STORED = Path(__file__).with_suffix(".json")
#: The folder of the checkout that runs; `--against` gives another one.
SOURCE = "OUTLARK_GOLDEN_SOURCE"
#: OpenBLAS and NumPy use what every x86-64 processor since 2013 has.
SAME_BITS = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL",
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
#: Run in the checkout's own code: six recordings, and a model whose candidates a plain function confirms.
MAKE = """
from pathlib import Path
import numpy as np, soundfile
from outlark.data.demo_recordings import demo_sound, write_demo
from outlark.data.synthetic import SAMPLE_RATE
from outlark.audio.sound import resample

made = write_demo(Path("tables"))
Path("sound/site").mkdir(parents=True)
for path in made[1:3]:
    path.rename(Path("sound") / path.name)
sound = demo_sound(7)[0]
part = sound[: 20 * SAMPLE_RATE]
soundfile.write("sound/site/SITE_20240601_050000.flac", part, SAMPLE_RATE)
soundfile.write("sound/site/stereo.wav", np.stack([part[::-1], part], axis=1)[: 9 * SAMPLE_RATE], SAMPLE_RATE)
soundfile.write("sound/other rate.wav", resample(part, SAMPLE_RATE, 44100), 44100, subtype="PCM_24")
soundfile.write("sound/quiet.wav", 1e-3 * part[: 5 * SAMPLE_RATE], SAMPLE_RATE, subtype="FLOAT")
"""
CONFIRMED = """
import numpy as np
from pathlib import Path
from outlark import NoteDetector
from outlark.commands.train.examples import find_examples
from outlark.commands.train.learning import learn

def bands(samples, sample_rate):
    power = np.abs(np.fft.rfft(samples, 4096)) ** 2
    return np.log1p(np.add.reduceat(power[1:], np.arange(0, 2048, 64)))

examples = find_examples(["tables/20240512_053000.Table.1.selections.txt"]).at_most(5)
detector = learn(examples, NoteDetector(embedding=bands)).detector
for path in sorted(Path("sound").rglob("*")):
    if path.is_file():
        for segment in detector.detect(path):
            print(path, segment)
"""
EXAMPLES = ("tables/20240512_053000.Table.1.selections.txt", "--max-examples", "5")
#: Model → the commands that make it.
MODELS = {
    "default": [("train", *EXAMPLES, "-o", "default.outlark")],
    "paper": [("train", *EXAMPLES, "--paper", "-o", "paper.outlark")],
    "negatives": [("train", *EXAMPLES, "--negative", "tables/negatives.txt", "-o", "negatives.outlark")],
    "calibrated": [("calibrate", "default.outlark", "sound", "-o", "calibrated.outlark")],
}
NEGATIVES = "Selection\tBegin Time (s)\tEnd Time (s)\tBegin File\tLabel\n" + "".join(
    f"{k + 1}\t{start}\t{start + 0.12}\t20240512_053000.wav\ttuti-D\n" for k, start in enumerate((7.3, 11.9, 21.4))
)


def python(folder: Path, *words: str) -> str:
    """Run Python on the code of the checkout, in the folder of the golden files."""
    source = os.environ.get(SOURCE, str(ROOT))
    env = {**os.environ, "PYTHONPATH": f"{source}/src", "PYTHONHASHSEED": "0"} | SAME_BITS
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(words)[:200]}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def answers(folder: Path) -> dict[str, str]:
    """What the commands answer, by name; their files are left in the folder."""
    python(folder, "-c", MAKE)
    (folder / "tables" / "negatives.txt").write_text(NEGATIVES)
    said = {"confirmed": python(folder, "-c", CONFIRMED)}
    for name, commands in MODELS.items():
        for words in commands:
            said[f"{words[0]} {name}"] = python(folder, "-m", "outlark", *words, "--json")
        found = ("-o", f"found-{name}", "-f", "csv,raven,jsonl", "-j", "2", "--all", "--json")
        said[f"detect {name}"] = python(folder, "-m", "outlark", "detect", f"{name}.outlark", "sound", *found)
    said["evaluate"] = python(folder, "-m", "outlark", "evaluate", "found-default/combined.csv", "tables", "--json")
    return said


def digests(folder: Path) -> dict[str, str]:
    """Name of a file or an answer → its digest, after all commands have run in the folder."""
    found = {name: _digest(text.encode(), folder) for name, text in answers(folder).items()}
    written = [*folder.glob("*.outlark"), *(p for p in folder.glob("found-*/**/*") if p.is_file())]
    kept = [path for path in written if ".outlark" not in path.parts and not path.name.endswith(".about.json")]
    return found | {str(path.relative_to(folder)): _digest(path.read_bytes(), folder) for path in sorted(kept)}


def _digest(content: bytes, folder: Path) -> str:
    """Where the folder is, and how long a command took, are no results."""
    content = re.sub(rb'"seconds_taken": [0-9.]+', b"", content.replace(str(folder).encode(), b""))
    return hashlib.sha256(content).hexdigest()[:16]


def run(source: Path) -> dict[str, str]:
    os.environ[SOURCE] = str(source)
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        return digests(Path(folder).resolve())


def of_revision(revision: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="golden-checkout-") as checkout:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", checkout], input=archive, check=True)
        return run(Path(checkout))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the digests in tools/golden.json")
    parser.add_argument("--against", metavar="REV", help="compare with the digests of this revision, made here and now")
    chosen = parser.parse_args()
    now = run(ROOT)
    if chosen.write:
        STORED.write_text(json.dumps(now, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        print(f"{len(now)} digests stored in {STORED}")
        return 0
    before = of_revision(chosen.against) if chosen.against else json.loads(STORED.read_text())
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    for name in changed:
        print(f"{name}: {'new' if name not in before else 'gone' if name not in now else 'changed'}")
    print(f"{len(now) - len(changed)} of {len(now)} outputs are the same")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
