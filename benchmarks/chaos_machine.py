"""Trials of benchmarks/chaos.py on one machine: kills, pauses, lost workers, disks and clocks."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from chaos_ground import Ground, Result, digests, emptied, kill, lines, not_run, wait_for

from outlark.plain_text import number_of

#: Bytes per second, and requests per second, of a disk that is slow.
SLOW_READ, SLOW_WRITE, SLOW_REQUESTS = 2_000_000, 200_000, 40
CGROUP = Path("/sys/fs/cgroup/blkio")
#: Days by which the clock jumps, back and forth.
JUMPS = (-400, 3650, 0)


def killed(ground: Ground, n_kills: int) -> Iterator[Result]:
    """SIGKILL at random moments, and the same command again, until all kills are used up."""
    left, n_rounds = n_kills, 0
    while left:
        n_rounds += 1
        output, before = emptied(ground.folder / "killed"), left
        while True:
            process = ground.detect(output)
            if not left or not _at_a_random_moment(ground, output, process):
                break
            kill(process, workers_too=ground.rng.random() < 0.5)
            left -= 1
        ground.finished(process)
        result = ground.compared("SIGKILL", f"round {n_rounds}: {before - left} kills, resumed after each", output)
        if not result.good or not left:
            break
    yield result._replace(
        done=f"{n_kills - left} kills at random moments in {number_of(n_rounds, 'round')}, resumed after each"
    )


def _at_a_random_moment(ground: Ground, output: Path, process: "subprocess.Popen[bytes]") -> bool:
    """After some more lines of the journal, or a little time; False if the run was through before."""
    enough, soon = ground.some_lines(output), time.monotonic() + ground.rng.uniform(0.0, 3.0)
    early = ground.rng.random() < 0.3
    if not wait_for(lambda: enough() or (early and time.monotonic() > soon), process):
        return False
    time.sleep(ground.rng.uniform(0.0, 0.04))
    return process.poll() is None


def paused(ground: Ground, n_pauses: int) -> Iterator[Result]:
    """All processes stop at random moments for a while, as when a laptop is closed."""
    output, n_done = emptied(ground.folder / "paused"), 0
    process = ground.detect(output)
    while n_done < n_pauses and wait_for(ground.some_lines(output), process):
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(ground.rng.uniform(0.1, 2.0))
        os.killpg(process.pid, signal.SIGCONT)
        n_done += 1
    ground.finished(process)
    yield ground.compared("pauses", f"SIGSTOP and SIGCONT, {n_done} times", output)


def worker_lost(ground: Ground, n_kills: int) -> Iterator[Result]:
    """SIGKILL for one worker of two, again and again, while the run goes on."""
    output, n_done = emptied(ground.folder / "workers"), 0
    process = ground.detect(output, "-j", 2)
    while n_done < n_kills and wait_for(ground.some_lines(output), process):
        workers = [child for child in psutil.Process(process.pid).children() if _works(child)]
        if workers:
            workers[int(ground.rng.integers(len(workers)))].kill()
            n_done += 1
    ground.finished(process, codes=(0, 3))
    done = f"--jobs 2, SIGKILL for one of them, {n_done} times in one run"
    if process.returncode:  # a recording whose worker was killed twice is reported, and tried again by the next run
        n_failed = len((output / "failures.csv").read_text(encoding="utf-8").splitlines()) - 1
        done += f"; {n_failed} hit twice, reported in failures.csv and done by the same command again"
        ground.finished(ground.detect(output, "-j", 2))
    yield ground.compared("worker lost", done, output)


def _works(process: psutil.Process) -> bool:
    try:
        return any("spawn_main" in word for word in process.cmdline())
    except psutil.Error:
        return False


def full_disk(ground: Ground) -> Iterator[Result]:
    """A disk that holds half of the results; then a larger one."""
    scenario, disk = "full disk", emptied(ground.folder / "small")
    disk.mkdir()
    size = sum(path.stat().st_size for path in ground.serial.rglob("*") if path.is_file()) // 2
    mounted = _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk)
    if mounted:
        yield not_run(scenario, f"a small disk cannot be mounted here, which takes root ({mounted})")
        return
    try:
        process = ground.detect(disk / "out")
        said = ground.finished(process, codes=(1, 3))
        expected, partial = digests(ground.serial), digests(disk / "out")
        tables = {name: digest for name, digest in partial.items() if "/" in name}  # those of all rows come at the end
        torn = [name for name, digest in tables.items() if expected.get(name) != digest]
        trouble = f"half-written: {torn}" if torn else "" if "No space left" in said else f"it said: {said}"
        _run("mount", "-o", f"remount,size={20 * size}", disk)
        ground.finished(ground.detect(disk / "out"))
        done = f"{size // 1000} kB, half of what is needed: exit code {process.returncode}, “No space left on device”, "
        done += f"{len(tables)} of {sum('/' in name for name in expected)} tables whole, none torn; then a larger disk"
        yield ground.compared(scenario, done, disk / "out", trouble)
    finally:
        _run("umount", disk)


def slow_disk(ground: Ground) -> Iterator[Result]:
    """Recordings and results on a disk that is slow, and SIGKILL while it is at work."""
    scenario = "slow disk"
    try:
        with _slow_disk(ground) as (disk, join):
            output, begin = disk / "out", time.monotonic()
            more = {"recordings": disk / "season", "first": join}
            process = ground.detect(output, **more)
            n_kills = 0
            for _ in range(2):
                if not _at_a_random_moment(ground, output, process):
                    break
                kill(process)
                n_kills += 1
                process = ground.detect(output, **more)
            ground.finished(process)
            took = time.monotonic() - begin
            done = f"ext4 on a loop device with {SLOW_READ // 1000} kB/s to read, {SLOW_WRITE // 1000} kB/s and "
            done += f"{SLOW_REQUESTS} requests/s to write (cgroup limits), {n_kills} kills; {took:.0f} s in place of "
            yield ground.compared(scenario, f"{done}{ground.serial_s:.0f} s", output)
    except PermissionError as error:
        yield not_run(scenario, f"a slow disk cannot be made here, which takes root and cgroup v1 ({error})")


@contextmanager
def _slow_disk(ground: Ground) -> Iterator[tuple[Path, object]]:
    """A disk with the recordings, and what a process has to do so that it is slow for it."""
    image, disk, group = ground.folder / "disk.img", ground.folder / "slow", CGROUP / f"outlark-chaos-{os.getpid()}"
    size = sum(path.stat().st_size for path in ground.recordings.rglob("*") if path.is_file())
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(2 * size + 2**26)
    try:
        _must("mkfs.ext4", "-q", "-F", image)
        _must("mount", "-o", "loop", image, disk)
        _must("cp", "-a", ground.recordings, disk / "season")
        _must("umount", disk)
        _must("mount", "-o", "loop", image, disk)  # so that nothing is in the cache
        number = os.stat(disk).st_dev
        try:
            group.mkdir()
            for name, limit in (("read_bps", SLOW_READ), ("write_bps", SLOW_WRITE), ("write_iops", SLOW_REQUESTS)):
                rule = f"{os.major(number)}:{os.minor(number)} {limit}"
                (group / f"blkio.throttle.{name}_device").write_text(rule)
        except OSError as error:
            raise PermissionError(str(error)) from None
        yield disk, lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        _run("umount", disk)
        if group.exists():
            group.rmdir()
        image.unlink()


def clock_jumps(ground: Ground) -> Iterator[Result]:
    """The clock of the computer jumps while runs are under way, and between them."""
    scenario = "clock jumps"
    library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
    if library is None:
        yield not_run(scenario, "libfaketime is not installed (apt-get install faketime)")
        return
    output, shift = emptied(ground.folder / "clock"), ground.folder / "shift"
    env = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(shift),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # it does not jump on a real computer either
        "NO_FAKE_STAT": "1",
    }
    shift.write_text("+0d\n")
    process, n_jumps = ground.detect(output, env=env), 0
    for days in JUMPS:
        if not wait_for(ground.some_lines(output), process):
            break
        shift.write_text(f"{days:+d}d\n")
        n_jumps += 1
        if wait_for(ground.some_lines(output), process):
            kill(process)
            process = ground.detect(output, env=env)
    ground.finished(process)
    done = f"{n_jumps} jumps in the midst of runs ({', '.join(f'{days:+d}' for days in JUMPS[:n_jumps])} days; "
    yield ground.compared(scenario, f"{done}libfaketime), SIGKILL and resumed after each", output)


def times_of_files_jump(ground: Ground) -> Iterator[Result]:
    """Between two runs the times of recordings change, as those of a card do with summer time."""
    output, files = emptied(ground.folder / "times"), sorted(ground.recordings.rglob("*.wav"))
    before = {path: path.stat().st_mtime for path in files}
    process = ground.detect(output)
    if wait_for(lambda: len(lines(output, "done")) >= ground.n_files // 2, process):
        kill(process)
    try:
        for i, path in enumerate(files):
            jump = (-3600, 0, 3600, 315_360_000)[i % 4]
            os.utime(path, (before[path] + jump,) * 2)
        ground.finished(ground.detect(output))
    finally:
        for path, when in before.items():
            os.utime(path, (when, when))
    done = "killed; recordings an hour older, as they were, an hour or ten years newer; resumed"
    yield ground.compared("times of files jump", done, output)


def _run(*command: object) -> str:
    """Run a program; what it complains of, empty if all is well."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""


def _must(*command: object) -> None:
    said = _run(*command)
    if said:
        raise PermissionError(said)
