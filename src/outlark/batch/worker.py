"""The other end of `outlark.batch.workers`: a process that holds a model and works on one file after the other.

Lines of JSON come in: the task first, then files. Lines of JSON go out: one when the model is ready, and for each file
how far it is and what came of it. When the input ends, whoever asked is gone, and so is this process.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from outlark.batch.engine import Engine
from outlark.batch.lock import lock
from outlark.batch.sources import Source
from outlark.batch.task import Task
from outlark.errors import OutlarkError

#: Seconds between two lines on how far a file is.
TELL_S = 0.5
#: Seconds to wait for a run that is about to end.
WAIT_S = 10.0


def main() -> None:
    """Work until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the one that asked decides
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever a library prints is no reply
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    task = Task.loads(lines.get())

    def tell(**reply: Any) -> None:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

    with lock(task.workshop / "workers", shared=True, wait_s=WAIT_S):
        try:
            engine = Engine(task, task.workshop / "partial" / str(os.getpid()))
        except OutlarkError as error:
            tell(refused=str(error))
            return
        tell(ready=True)
        while True:
            given = json.loads(lines.get())
            tell(**_outcome(engine, Source(Path(given["path"]), given["name"]), tell))


def _outcome(engine: Engine, source: Source, tell: Any) -> dict[str, Any]:
    last = time.monotonic()

    def progress(seconds: float, share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= TELL_S:
            last = time.monotonic()
            tell(seconds=seconds, share=share)

    try:
        return {"done": engine.work(source, progress)}
    except OutlarkError as error:
        return {"failed": str(error)}
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return {"failed": f"{where}{error.strerror or error}; free some space, or check that you may write there"}
    except MemoryError:
        return {"failed": f"{source.path}: needs more memory than there is; give fewer jobs (-j)"}
    except Exception as error:  # whatever is wrong with one file must not stop the others
        return {"failed": f"{source.path}: {type(error).__name__}: {error}; please report this"}


def _listen(lines: "SimpleQueue[bytes]") -> None:
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
