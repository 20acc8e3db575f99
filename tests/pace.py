"""Whether work grows with its size as it should: only ratios within one run count, not the speed of the machine."""

import time
from collections.abc import Callable

import numpy as np

#: A step, or the work for a sample, may take so many times of what it should: noise, not growth.
NOISE = 4.0
ATTEMPTS = 3


def cpu_s(work: Callable[[], object], repeats: int = 3) -> float:
    """Processor time of the fastest of a few runs; other programs do not count."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def check_even_pace(step: Callable[[], object], n: int) -> None:
    """The last of n steps take as long as the first: nothing grows on the way."""
    times = [cpu_s(step, repeats=1) for _ in range(n)]
    quarter = max(1, n // 4)
    first, last = np.median(times[:quarter]), np.median(times[-quarter:])
    assert last <= NOISE * first + 1e-4, f"{first:.6f} s at first, {last:.6f} s at last"


def check_linear(work: Callable[[int], object], small: int, large: int) -> None:
    """A larger size takes longer in proportion; of 16 times the size, what grows with the square takes 256 times.

    What grows does so every time, and what a busy machine adds comes and goes: the best of a few attempts counts.
    """
    for _ in range(ATTEMPTS):
        ratio = cpu_s(lambda: work(large), repeats=1) / max(cpu_s(lambda: work(small)), 1e-4)
        if ratio <= NOISE * large / small:
            return
    assert ratio <= NOISE * large / small, f"{large / small:g} times the size, {ratio:.0f} times the time"
