"""How many files and functions of outlark a command passes through: what a newcomer has to read to follow it.

    python tools/trace_files.py             # train and detect on synthetic recordings, a line each
    python tools/trace_files.py --names     # with the names of the files

Counted is what is called (`sys.setprofile`, all threads and processes), not what runs while modules are imported.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "outlark"
#: Python runs this file at the start of every process that finds it on its path, workers included.
SITE = """
import sys, threading
seen = set()
log = open({output!r}, "a", buffering=1)
def imported(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith({source!r}):
            return not frame.f_code.co_filename.endswith("__main__.py")
        frame = frame.f_back
    return False
def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code not in seen and code.co_filename.startswith({source!r}) and not imported(frame):
        seen.add(code)
        log.write(f"{{code.co_filename}}\\t{{code.co_qualname}}\\n")
threading.setprofile(note)
sys.setprofile(note)
"""


def called(folder: Path, *words: str) -> set[tuple[str, str]]:
    """(file, function) of everything that a command calls, in all its processes."""
    output = folder / "called.txt"
    output.unlink(missing_ok=True)
    (folder / "sitecustomize.py").write_text(SITE.format(source=str(SOURCE), output=str(output)))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(SOURCE.parent)])}
    command = [sys.executable, "-m", "outlark", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"outlark {' '.join(words)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    lines = [line.split("\t") for line in output.read_text().splitlines()]
    return {(Path(file).relative_to(SOURCE).as_posix(), name) for file, name in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="list the files")
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory(prefix="trace-") as made:
        folder = Path(made)
        called(folder, "data", "get", "synthetic", "--to", "wood", "--quiet")
        table = "wood/20240512_053000.Table.1.selections.txt"
        commands = {
            "train": (table, "--max-examples", "5", "-o", "wood.outlark", "--quiet"),
            "detect": ("wood.outlark", "wood/20240512_061500.wav", "-o", "found", "-j", "1", "--quiet"),
        }
        for command, words in commands.items():
            found = called(folder, command, *words)
            files = sorted({file for file, _ in found})
            print(f"{command}: {len(files)} files, {len(found)} functions")
            if names:
                print("\n".join(f"  {file}" for file in files))


if __name__ == "__main__":
    main()
