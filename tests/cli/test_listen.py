"""`outlark listen`: the segments of `outlark detect`, while the sound is still coming."""

import fcntl
import json
import os
import signal
import subprocess
import termios
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark import model_file
from outlark.annotations import Annotation, read_annotations
from outlark.annotations.own_formats import annotation_line
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from tests.recordings_on_disk import OUTLARK, environment, start

#: Seconds after which nothing will come any more, on the slowest machine.
NEVER_S = 600


@pytest.fixture(scope="module")
def sound():
    """Twelve seconds, 16 bits: three known notes and three that are not."""
    played = notes(seed=4, counts={"tuti-D": 1, "tuti-F": 1, "cach-Z": 1, "cach-C": 2, "tuti-A": 1})
    audio, _ = concatenate(played, gap_s=1.5, edge_s=0.5, rng=np.random.default_rng(0))
    return (2**15 * audio).round().clip(-(2**15), 2**15 - 1).astype("<i2")


def listen(*args, raw=b""):
    """In this process."""
    return CliRunner().invoke(main, ["listen", *map(str, args)], input=raw)


@contextmanager
def listening(*args):
    """A process, and the lines that it has printed so far."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    found = []
    with start("listen", *args, **pipes) as process:
        reader = threading.Thread(target=lambda: found.extend(map(json.loads, process.stdout)), daemon=True)
        reader.start()
        yield process, found
        reader.join(NEVER_S)


def wait_for(found, n):
    until = time.monotonic() + NEVER_S
    while len(found) < n and time.monotonic() < until:
        time.sleep(0.02)
    assert len(found) >= n


def wait_until_read(process):
    """Until nothing is left in the pipe, and all threads of the process wait for more."""
    tasks = Path(f"/proc/{process.pid}/task")
    if not tasks.exists():
        time.sleep(1.0)  # no way to look
        return
    for _ in range(2):  # it may have been on its way from the one thread to the other
        while True:
            left = fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, bytes(4))
            states = [task.read_text().rsplit(")")[-1].split()[0] for task in tasks.glob("*/stat")]
            if not any(left) and set(states) == {"S"}:
                break
            time.sleep(0.02)


def test_the_lines_of_detect_while_the_pipe_is_open(model, sound, tmp_path):
    before = datetime.now().astimezone()
    soundfile.write(tmp_path / "a.wav", sound, SAMPLE_RATE)
    done = CliRunner().invoke(
        main, ["detect", str(model), str(tmp_path / "a.wav"), "-o", str(tmp_path), "-f", "jsonl", "--all", "-j", "1"]
    )
    assert done.exit_code == 0, done.stderr
    head, *expected = map(json.loads, (tmp_path / "a.wav.jsonl").read_text(encoding="utf-8").splitlines())
    with listening(model, "--rate", SAMPLE_RATE, "--all", "--name", "a.wav") as (process, found):
        raw, sizes, at = sound.tobytes(), (1, 977, 4096, 33, 8191), 0
        while at < len(raw):
            size = sizes[at % len(sizes)]
            process.stdin.write(raw[at : at + size])
            process.stdin.flush()
            at += size
        wait_for(found, 1 + len(expected) // 2)
        assert process.poll() is None
        assert len(found) < 1 + len(expected)
        process.stdin.write(b"\0")  # half a sample
        process.stdin.close()
        said = process.stderr.read().decode()
        assert process.wait(NEVER_S) == 0
    assert found[1:] == expected
    live = found[0]["outlark"]["settings"].pop("live")
    assert found[0] == head
    assert (live["sample_rate"], live["channels"], live["dtype"]) == (SAMPLE_RATE, 1, "int16")
    assert before - timedelta(seconds=1) <= datetime.fromisoformat(live["began"]) <= datetime.now().astimezone()
    assert "listening to standard input" in said
    assert "Warning: the last 1 byte did not make a whole sample; ignored" in said


@pytest.mark.parametrize(("kind", "name"), [("WAV", "WAV"), ("FLAC", "FLAC"), ("AIFF", "AIFF"), ("OGG", "Ogg")])
def test_a_sound_file_is_no_raw_sound(model, sound, tmp_path, kind, name):
    """Its header would be heard."""
    soundfile.write(tmp_path / "a", sound[:4000], SAMPLE_RATE, format=kind)
    done = listen(model, raw=(tmp_path / "a").read_bytes())
    assert done.exit_code == 1
    assert f"standard input is a {name} file, whose header is not sound" in done.stderr
    assert "outlark detect" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("raw", [b"", b"R", b"RI", b"ID", b"RIF\0"])
def test_a_beginning_that_only_resembles_a_sound_file(model, raw):
    done = listen(model, raw=raw)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_stopped_while_the_pipe_is_open(model, sound, name):
    with listening(model, "-q") as (process, found):
        process.stdin.write(sound.tobytes())
        process.stdin.flush()
        wait_for(found, 2)
        wait_until_read(process)
        process.send_signal(getattr(signal, name))
        assert process.wait(NEVER_S) == 0
        assert process.stderr.read() == b""
    detector = model_file.load(model)
    expected = [Annotation.from_segment(s) for s in detector.detect(sound, SAMPLE_RATE) if s.verdict != "silence"]
    assert found[1:] == [json.loads(annotation_line(annotation)) for annotation in expected]


def test_other_kinds_of_samples_and_verdicts(model, sound, tmp_path):
    both = np.column_stack([np.zeros(len(sound)), sound / 2.0**15])
    soundfile.write(tmp_path / "two.wav", both, SAMPLE_RATE, subtype="PCM_24")
    soundfile.write(tmp_path / "two.raw", both, SAMPLE_RATE, "PCM_24", "LITTLE", "RAW")
    how = ("--channels", 2, "--channel", 2, "--dtype", "int24", "--verdict", "known", "--min-unknown", "50ms", "-q")
    done = listen(model, *how, raw=(tmp_path / "two.raw").read_bytes())
    assert (done.exit_code, done.stderr) == (0, "")
    (tmp_path / "out.jsonl").write_bytes(done.stdout_bytes)
    table = read_annotations(tmp_path / "out.jsonl")
    assert table.about["settings"]["decisions"]["unknown_s"] == 0.05
    assert table.about["settings"]["live"]["dtype"] == "int24"
    right = soundfile.read(tmp_path / "two.wav")[0][:, 1]
    expected = [s for s in model_file.load(model).detect(right, SAMPLE_RATE) if s.verdict == "known"]
    assert [(m.start_s, m.label, m.channel) for m in table.annotations] == [(s.start_s, s.label, 2) for s in expected]
    assert len(expected) >= 2


def test_nothing_comes(model):
    done = listen(model)
    assert done.exit_code == 0
    (head,) = map(json.loads, done.stdout.splitlines())
    assert head["outlark"]["settings"]["live"]["began"] is None
    assert "analysed 0:00:00: nothing found" in done.stderr


def test_what_is_no_sound_ends_with_an_error(model):
    done = listen(model, "--dtype", "float32", "-q", raw=np.full(100, np.nan, "<f4").tobytes())
    assert done.exit_code == 1
    assert "Error: sample 0 is NaN or infinite; is the sound really float32" in done.stderr


def test_nobody_reads_on(model, sound):
    command = " ".join([*OUTLARK, "listen", str(model), "--all", "-q"])
    done = subprocess.run(
        f"{{ {command}; echo $? >&2; }} | head -n 1",
        shell=True, input=sound.tobytes() * 2, capture_output=True, timeout=NEVER_S, env=environment(),
    )  # fmt: skip
    assert json.loads(done.stdout)["outlark"]
    assert done.stderr == b"1\n"


def test_devices_without_the_package():
    try:
        import sounddevice  # noqa: F401
    except ImportError:
        done = CliRunner().invoke(main, ["listen", "--list-devices"])
        assert done.exit_code == 1
        assert "install it with: pip install sounddevice" in done.stderr
    else:
        pytest.skip("sounddevice is there")


def test_a_terminal_is_no_sound(model):
    master, terminal = os.openpty()
    done = subprocess.run(
        [*OUTLARK, "listen", str(model)], stdin=terminal, capture_output=True, timeout=NEVER_S, env=environment()
    )
    os.close(master)
    os.close(terminal)
    assert done.returncode == 2
    assert b"standard input is a terminal, or closed; pipe raw sound in, or give --device" in done.stderr
