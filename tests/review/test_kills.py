"""A server that is killed while it is used: what was answered is there, and of what was in flight all or nothing."""

import os
import shutil
import subprocess
import sys

import pytest

#: Serves in a forked child, reviews over HTTP, and kills the child at a random moment; over and over.
KILLS = """
import http.client, json, os, random, signal, socket, sys, threading, time
from pathlib import Path

import uvicorn
from outlark.review.serving import make_app
from outlark.review.opening import open_project
from outlark.review.store import UNDOABLE, Store
from tests.review.replay import replayed

recordings, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
chance = random.Random(3)

def log():
    '''The events of reviews, as place, verdict and state; the tables must be what the log says.'''
    store = Store(folder / "project.sqlite")
    events = store.rows("SELECT * FROM event ORDER BY id")
    tables = {t: {row["id"]: row for row in store.rows(f'SELECT * FROM "{t}"')} for t in UNDOABLE}
    assert tables == replayed(events)
    assert store.row("PRAGMA integrity_check") == {"integrity_check": "ok"}
    store.close()
    found = []
    for event in events:
        rows = [c["after"] for c in json.loads(event["changes"]) if c["table"] == "review" and c["after"]]
        if event["kind"].startswith("review"):
            found.append(((rows[0]["recording_id"], rows[0]["t0"]), rows[0]["verdict"], event["state"]))
    return found

def after(known, step):
    '''The log after one more action.'''
    if step == "undo":
        done = [n for n, (*_, state) in enumerate(known) if state == "done"]
        return [(*e[:2], "undone") if done and n == done[-1] else e for n, e in enumerate(known)]
    return [(*e[:2], "dropped") if e[2] == "undone" else e for e in known] + [(*step, "done")]

store = Store(folder / "project.sqlite")
found = store.rows("SELECT * FROM detection WHERE class_id IS NOT NULL")
store.close()
place = {d["id"]: (d["recording_id"], d["t0"]) for d in found}

def a_request(depth):
    kind = chance.choice(["one", "one", "batch", "undo" if depth else "one"])
    if kind == "undo":
        return "/api/undo", {}, ["undo"]
    bodies = [
        {"detection_id": chance.choice(list(place)), "verdict": chance.choice(["confirm", "reject", "unsure"])}
        for _ in range(3 if kind == "batch" else 1)
    ]
    steps = [(place[b["detection_id"]], b["verdict"]) for b in bodies]
    if kind == "batch":
        return "/api/reviews/batch", {"verdicts": bodies}, steps
    return "/api/reviews", bodies[0], steps

known, answered, halved = log(), 0, 0
for life in range(kills):
    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    child = os.fork()
    if child == 0:
        app = make_app(open_project([recordings], folder), [host])
        uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off")).run(sockets=[listening])
        os._exit(0)
    listening.close()
    ask = http.client.HTTPConnection(host)
    ask.request("GET", "/api/revision")
    ask.getresponse().read()
    killer = threading.Timer(chance.uniform(0.0, 0.012), os.kill, (child, signal.SIGKILL))
    requests_before = chance.randrange(5)
    try:
        for number in range(10**6):
            if number == requests_before:
                killer.start()
            path, body, steps = a_request(sum(state == "done" for *_, state in known))
            ask.request("POST", path, json.dumps(body), {"content-type": "application/json", "origin": f"http://{host}"})
            answer = ask.getresponse()
            assert answer.status in (200, 201), answer.read()
            answer.read()
            for step in steps:
                known = after(known, step)
            answered += len(steps)
    except (OSError, http.client.HTTPException):
        pass
    killer.join()
    os.waitpid(child, 0)
    possible = [known]
    for step in steps:
        possible.append(after(possible[-1], step))
    now = log()
    assert now in possible, (life, steps, now[-5:], known[-5:])
    halved += now != known
    known = now
print(answered, halved)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_hundred_kills_during_a_review_lose_at_most_what_is_in_flight(demo_recordings, trained_folder, tmp_path):
    shutil.copytree(trained_folder, tmp_path / "project")
    command = [sys.executable, "-c", KILLS, demo_recordings, tmp_path / "project", "100"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    answered, _stored_but_not_answered = map(int, done.stdout.split())
    assert answered > 100
