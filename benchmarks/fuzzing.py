"""Feed outlark with inputs that nobody would write on purpose, and see that it says what is wrong with each.

Run: ``python benchmarks/fuzzing.py audio --inputs 100000 --seed 1 --folder build/fuzz``; needs ``pip install atheris``.
Inputs are changed as the modules of `fuzz` say, and those that reach new code of outlark are changed further. An input
that ends in anything but success or an error of outlark, takes more than 20 s, more than a gigabyte of memory or the
whole process with it, is a finding: it is kept in the folder, and the next one is tried.
"""

import argparse
import faulthandler
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

NAMES = ("audio", "tables", "models", "requests", "commands")
SECONDS, GIGABYTE = 20, 2**30
#: Inputs between two notes of how far it is; a process that dies loses those since the last one.
EVERY = 100
#: Inputs that are kept of each kind of finding, and processes that may die.
KEPT, MOST_DEATHS = 3, 40
#: Scratch files are written here if it is there: it is memory, and spares the disk.
IN_MEMORY = next((place for place in ("/dev/shm",) if Path(place).is_dir()), None)


class Book:
    """What was found so far, in a file that survives the process."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / "book.json"
        found = json.loads(self._path.read_text()) if self._path.exists() else {}
        self.inputs, self.seconds = found.get("inputs", 0), found.get("seconds", 0.0)
        self.outcomes, self.findings = Counter(found.get("outcomes", {})), Counter(found.get("findings", {}))
        self._before, self._started = self.seconds, time.perf_counter()

    def take(self, data: bytes, kind: str, trace: str) -> None:
        """Note an outcome, and keep the first inputs of each finding."""
        self.inputs += 1
        self.outcomes[kind] += 1
        if trace:
            self.findings[kind] += 1
            if self.findings[kind] <= KEPT:
                self.keep(f"{kind} {self.findings[kind]}", data, trace)
        if self.inputs % EVERY == 0:
            self.write()

    def keep(self, name: str, data: bytes, trace: str) -> None:
        """An input and what came of it."""
        path = self._folder / "findings" / "".join(c if c.isalnum() else "_" for c in name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(trace, errors="backslashreplace")

    def write(self) -> None:
        """All of it."""
        self.seconds = self._before + time.perf_counter() - self._started
        names = ("inputs", "seconds", "outcomes", "findings")
        self._path.write_text(json.dumps({name: getattr(self, name) for name in names}, indent=1))


def work(name: str, n: int, seed: int, folder: Path, scratch: Path) -> None:
    """Run inputs in this process until there were so many; called in a process of its own."""
    import atheris

    with atheris.instrument_imports(include=["outlark"], enable_loader_override=False):
        from fuzz.targets import TARGETS, judge

        for _, module, _ in walk_packages(import_module("outlark").__path__, "outlark."):
            if module != "outlark.__main__":
                import_module(module)
    target = TARGETS[name](scratch)
    for number, data in enumerate(target.seeds()):
        (folder / "corpus" / f"seed_{number:03}").write_bytes(data)
    book = Book(folder)
    _limit_memory()

    def one(data: bytes) -> None:
        (scratch / "input").write_bytes(data)
        faulthandler.dump_traceback_later(SECONDS, exit=True)  # from a thread of its own, whatever Python waits for
        judged = judge(target, data)
        faulthandler.cancel_dump_traceback_later()
        book.take(data, *judged)
        if book.inputs >= n:
            book.write()
            os._exit(0)

    def mutate(data: bytes, longest: int, number: int) -> bytes:
        rng = random.Random(number)
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = target.mutate(data, rng)
        return data[:longest]

    how = {"seed": seed + book.inputs, "rss_limit_mb": 3000, "max_len": 2**18, "len_control": 0,
           "artifact_prefix": f"{folder}/deaths/", "reload": 0, "mutate_depth": 1,
           "entropic_scale_per_exec_time": 1}  # fmt: skip
    atheris.Setup([sys.argv[0], *(f"-{key}={value}" for key, value in how.items()), str(folder / "corpus")], one,
                  custom_mutator=mutate)  # fmt: skip
    atheris.Fuzz()


def replay(name: str, folder: Path) -> Counter[str]:
    """Run once more all inputs that reached new code, and those that were findings; the findings that are left."""
    from fuzz.targets import TARGETS, judge

    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as scratch, closing(TARGETS[name](Path(scratch))) as target:
        files = [path for part in ("corpus", "findings", "deaths") for path in sorted((folder / part).glob("*"))]
        kept = [path for path in files if path.suffix != ".txt"]
        for path in kept:
            kind, trace = judge(target, path.read_bytes())
            if trace:
                found[kind] += 1
                print(f"{path}\n{trace}")
    print(f"{name}: {len(kept)} inputs run again, {found.total()} findings")
    return found


def _limit_memory() -> None:
    """A gigabyte more than now; what asks for more gets a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + GIGABYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def run(name: str, n: int, seed: int, folder: Path) -> dict[str, Any]:
    """Run so many inputs, with a new process whenever one dies."""
    for part in ("corpus", "deaths"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, name, "--inputs", str(n), "--seed", str(seed), "--folder", str(folder.parent)]
    deaths = 0
    while Book(folder).inputs < n and deaths <= MOST_DEATHS:
        with (folder / "log.txt").open("ab") as log, tempfile.TemporaryDirectory(dir=IN_MEMORY) as scratch:
            ended = subprocess.run([*command, "--work", scratch], stdout=log, stderr=log, check=False)
            if ended.returncode != 0:
                deaths += 1
                for last in Path(scratch).glob("input"):
                    shutil.move(last, folder / "deaths" / f"code_{ended.returncode}_after_{Book(folder).inputs}")
    book = Book(folder)
    return {"inputs": book.inputs, "seconds": book.seconds, "outcomes": book.outcomes, "findings": book.findings,
            "deaths": sorted(path.name for path in (folder / "deaths").iterdir()), "restarts": deaths}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=NAMES)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--replay", action="store_true", help="run the inputs that the folder holds once more")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = (given.folder / given.target).absolute()
    if given.replay:
        sys.exit(bool(replay(given.target, folder)))
    if given.work:
        work(given.target, given.inputs, given.seed, folder, given.work)
    found = run(given.target, given.inputs, given.seed, folder)
    for kind, number in found["findings"].most_common():
        print(f"finding: {kind}: {number}")
    for death in found["deaths"]:
        print(f"finding: {death}")
    print(f"| {given.target} | {found['inputs']:,} | {given.seed} | {len(found['outcomes'])} | "
          f"{found['inputs'] / found['seconds']:.0f} | {len(found['findings']) + len(found['deaths'])} |")  # fmt: skip


if __name__ == "__main__":
    main()
