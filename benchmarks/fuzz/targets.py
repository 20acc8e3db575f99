"""What is fuzzed, and how the outcome of one input is named and judged."""

import random
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fuzz.audio import Audio
from fuzz.command_line import CommandLine
from fuzz.models import Models
from fuzz.requests import Requests
from fuzz.tables import Tables
from fuzz.target import Finding, Target

TARGETS: dict[str, type[Target]] = {kind.name: kind for kind in (Audio, Tables, Models, Requests, CommandLine)}


class Judged(NamedTuple):
    """The kind of outcome of an input; for a finding also the traceback."""

    kind: str
    trace: str = ""


def judge(target: Target, data: bytes) -> Judged:
    """Run an input."""
    try:
        return Judged(kind_of(target.run(data)))
    except Finding as error:
        return Judged(kind_of(f"Finding: {error}"), f"{error}\n")
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = next((f for f in reversed(frames) if "/outlark/" in f.filename), frames[-1])
        where = f"{Path(at.filename).name}:{at.lineno}"
        return Judged(f"{type(error).__name__} in {where}", "".join(traceback.format_exception(error)))


def kind_of(outcome: str) -> str:
    """An outcome without what differs from input to input: paths, quoted texts, numbers.

    >>> kind_of("AudioError: /tmp/x/a.wav is empty (0 bytes); found 'abc'")
    'AudioError: … is empty (N bytes); found …'
    """
    short = re.sub(r"(?<!\w)/\S+", "…", outcome)
    short = re.sub(r"b?'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\"", "…", short)
    return re.sub(r"[-+]?\d[\d.,e+-]*", "N", short)[:80]


def inputs(target: Target, seed: int, n: int) -> Iterator[bytes]:
    """So many inputs, each a real one with one to four changes; the same for the same seed and real inputs."""
    rng, seeds = random.Random(seed), target.seeds()
    for _ in range(n):
        data = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = target.mutate(data, rng)
        yield data
