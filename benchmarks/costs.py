"""What something costs in a process of its own: processor time and peak memory, with one thread for BLAS.

Processor time is what a busy machine falsifies least; it counts all threads. The scripts that are measured import this
module in environments that hold nothing but a peer, so that nothing but the standard library may be imported here.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Costs = dict[str, float]
#: Every library that has a pool of threads is held to one.
ONE_THREAD = dict.fromkeys(
    ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"], "1"
)


class FailedError(Exception):
    """A process ended without a result; the message is the last line of what it said."""


def in_a_process(script: str | Path, *arguments: str, python: str | Path = sys.executable) -> Costs:
    """Run a script that prints its costs as JSON in the last line."""
    environment = os.environ | ONE_THREAD | {"PYTHONWARNINGS": "ignore"}
    if Path(python) != Path(sys.executable):
        environment.pop("PYTHONPATH", None)  # another environment has its own packages
    command = [str(python), str(script), *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise FailedError((run.stderr.strip() or f"ended with {run.returncode}").splitlines()[-1])
    return json.loads(run.stdout.splitlines()[-1])


def median(runs: Sequence[Costs]) -> Costs:
    """The median of each cost.

    >>> median([{"fit": 1.0}, {"fit": 9.0}, {"fit": 2.0}])
    {'fit': 2.0}
    """
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def peak_mb() -> float:
    """Peak memory of this process, in MB (2²⁰ bytes).

    Linux hands ``ru_maxrss`` down from the process that started this one, which may be the larger one: its own is in
    ``/proc``.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024**2 if sys.platform == "darwin" else 1024)
