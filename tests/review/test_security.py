"""What must not be possible, each as an attempt (docs/decisions/015)."""

import errno
import json
import os
import shutil
import sqlite3

import pytest
import schemathesis
import soundfile
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from outlark.errors import InputError
from outlark.review import recordings
from outlark.review.opening import open_project
from outlark.review.serving import SECURITY_HEADERS, TOKEN_COOKIE, bind, is_loopback, make_app
from tests.review.conftest import HOST, Client, limited, project_of

SOUND = b"RIFF\x24\x00\x00\x00WAVE"


@pytest.mark.parametrize(
    "host", ["evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "localhost:8000.evil.example", ""]
)
def test_other_names_for_this_computer_are_refused(client, host):
    for path in ("/", "/api/project", "/api/recordings/1/audio", "/main.js"):
        assert client.get(path, headers={"host": host}).status_code == 403


def test_two_host_headers_are_refused(client):
    assert client.get("/", headers=[("host", HOST), ("host", "evil.example")]).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/", "/api/project", "/api/recordings/1/audio", "/api/export"])
def test_other_sites_cannot_read(client, site, path):
    assert client.get(path, headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:8000", "http://127.0.0.1:8001"]
)
def test_other_sites_cannot_change_anything(opened, origin):
    headers = {} if origin is None else {"origin": origin}
    with TestClient(make_app(opened, [HOST]), base_url=f"http://{HOST}", headers=headers) as client:
        for method, path in (
            ("POST", "/api/classes"),
            ("POST", "/api/undo"),
            ("PUT", "/api/uploads/a.wav"),
            ("DELETE", "/api/classes/1"),
        ):
            assert client.request(method, path, json={"name": "x"}).status_code == 403
    assert not opened.project.classes()


def test_every_answer_has_the_headers(client):
    for answer in (
        client.get("/"),
        client.get("/api/project"),
        client.get("/nothing"),
        client.get("/", headers={"host": "x"}),
    ):
        assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
        assert "access-control-allow-origin" not in answer.headers
    assert "unsafe" not in SECURITY_HEADERS["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml", "/..%2f..%2fapp.py", "/%2e%2e/app.py", "/....//app.py", "/..\\app.py", "/%2fetc/passwd",
        "/api/recordings/..%2f1/audio", "/api/recordings/%2e%2e/audio", "/index.html/../../app.py", "/static/../app.py",
    ],
)  # fmt: skip
def test_paths_lead_nowhere(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 405, 422)
    assert b"outlark.review" not in answer.content


def test_no_answer_names_where_recordings_are(trained_client, demo_recordings):
    for path in ("/api/project", "/api/recordings/1", "/api/queue", "/api/recordings/1/annotations"):
        assert str(demo_recordings) not in trained_client.get(path).text


@pytest.mark.parametrize(
    ("asked", "status", "length"),
    [
        ("bytes=0-", 206, None), ("bytes=-10", 206, 10), ("bytes=43-46", 206, 4), ("bytes=5-5", 206, 1),
        ("bytes=0-99999999999", 206, None), ("bytes=99999999999-", 416, None), ("bytes=5-4", 416, None),
        ("bytes=-0", 416, None), ("bytes=0-1,2-3", 416, None), ("bytes=" + "0-1," * 40 + "0-1", 416, None),
        ("lines=1-2", 416, None), ("bytes=a-b", 416, None), ("bytes=-", 416, None), ("x" * 5000, 422, None),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_ranges(client, asked, status, length):
    answer = client.get("/api/recordings/1/audio", headers={"range": asked})
    assert answer.status_code == status
    total = 44 + 2 * 60 * 22050
    if status == 206:
        assert len(answer.content) == (length or total)
        assert answer.headers["content-range"].endswith(f"/{total}")


@pytest.mark.parametrize(
    "name",
    [
        "..%2fa.wav", "%2e%2e%2fa.wav", "a%00.wav", "a.exe", ".hidden.wav", "-rf.wav", "a%5cb.wav", "a%2fb.wav",
        "CON%3a.wav", "a%0a.wav", "a%1b[31m.wav", "%e2%80%aegpj.wav", "x" * 250 + ".wav", "%20", "a.wav.py",
    ],
)  # fmt: skip
def test_upload_names(client, name):
    before = sorted(client.opened.project.folder.rglob("*"))
    assert client.put(f"/api/uploads/{name}", content=SOUND).status_code in (404, 405, 422)
    assert [p for p in sorted(client.opened.project.folder.rglob("*")) if "sqlite" not in p.name] == [
        p for p in before if "sqlite" not in p.name
    ]


def uploads(client) -> list[str]:
    return sorted(os.listdir(client.opened.project.folder / "uploads"))


def test_uploads_are_checked_before_they_count(client, demo_recordings):
    wav = next(demo_recordings.glob("*.wav")).read_bytes()[: 44 + 2 * 22050]
    assert client.put("/api/uploads/new.wav", content=wav).status_code == 201
    assert uploads(client) == ["new.wav"]
    assert client.put("/api/uploads/new.wav", content=wav).status_code == 409
    assert client.put("/api/uploads/bad.wav", content=b"<html>" * 100).status_code == 409
    assert client.put("/api/uploads/empty.wav", content=b"").status_code == 400
    assert uploads(client) == ["new.wav"]
    assert [r["name"] for r in client.get("/api/project").json()["recordings"]].count("new.wav") == 1


def test_uploads_must_say_how_long_they_are(client):
    def chunks():
        yield SOUND

    assert client.put("/api/uploads/a.wav", content=chunks()).status_code == 411
    assert client.put("/api/uploads/a.wav", content=b"x", headers={"content-length": "99"}).status_code == 400
    assert uploads(client) == []


def test_large_uploads_are_refused(client, monkeypatch):
    huge = {"content-length": str(recordings.MAX_UPLOAD_BYTES + 1)}
    assert client.put("/api/uploads/a.wav", content=b"x", headers=huge).status_code == 413
    free = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert client.put("/api/uploads/a.wav", content=SOUND).status_code == 507
    assert client.post("/api/classes", content=b"{" + b" " * 2**22 + b"}").status_code == 413


def test_files_behind_links_and_outside_are_not_served(tmp_path, demo_recordings):
    """Only what was given is opened, and by number; a link in the folder leads to the file that it names."""
    folder = tmp_path / "given"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.wav").symlink_to(tmp_path / "secret.txt")
    shutil.copy(next(demo_recordings.glob("*.wav")), folder / "a.wav")
    opened = open_project([folder])
    assert [p.where for p in opened.problems] == ["link.wav"]
    with Client(opened) as client:
        assert [r["name"] for r in client.get("/api/project").json()["recordings"]] == ["a.wav"]
        assert client.get("/api/recordings/2/audio").status_code == 404
    opened.project.close()


def test_a_hostile_model_is_refused_and_runs_nothing(trained_client, tmp_path):
    import pickle

    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "ran"),))

    project = trained_client.opened.project
    (project.folder / project.run()["model"]).write_bytes(pickle.dumps(Evil()))
    job = trained_client.work("/api/decide")
    assert job["state"] == "failed"
    assert "outlark" in job["message"]
    assert not (tmp_path / "ran").exists()


def test_a_project_file_cannot_lead_out_of_the_folder_of_an_export(trained_client):
    project = trained_client.opened.project
    with project.store.writing() as db:
        db.execute("UPDATE recording SET name = '../../../escaped.wav' WHERE id = 1")
    answer = trained_client.get("/api/export", params={"recording": 1, "format": "csv"})
    assert answer.status_code == 200
    assert ".." not in answer.headers["content-disposition"]


def test_formulas_do_not_reach_spreadsheets(client):
    client.post("/api/classes", json={"name": "=1+1"})
    client.post("/api/annotations", json={"recording_id": 1, "class_id": 1, "t0": 100, "t1": 5000})
    for format in ("csv", "raven"):
        assert b"'=1+1" in client.get("/api/export", params={"format": format, "recording": 1}).content


def test_any_address_but_loopback_needs_a_token(opened):
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "10.0.0.1", "example.org")] == [True] * 3 + [
        False
    ] * 2
    with pytest.raises(InputError, match="every address"):
        bind("0.0.0.0", 0)
    address = bind("127.0.0.1", 0)
    address.socket.close()
    assert address.token is None
    token = "t" * 43
    with TestClient(make_app(opened, [HOST], token), base_url=f"http://{HOST}") as client:
        page = {"origin": f"http://{HOST}"}
        assert client.get("/api/project").status_code == 401
        assert client.get("/api/project", headers={"x-outlark-token": "wrong"}).status_code == 401
        assert client.get("/api/project", headers={"cookie": f"{TOKEN_COOKIE}=wrong"}).status_code == 401
        assert client.post("/api/token", json={"token": "wrong"}, headers=page).status_code == 403
        assert client.get("/").status_code == 200
        assert client.get("/api/project", headers={"x-outlark-token": token}).status_code == 200
        swapped = client.post("/api/token", json={"token": token}, headers=page)
        assert {"HttpOnly", "SameSite=strict"} <= set(swapped.headers["set-cookie"].split("; "))
        assert client.get("/api/project").status_code == 200
        assert client.post("/api/undo", headers={"origin": "http://evil.example", "cookie": ""}).status_code == 403


def test_a_host_that_is_not_loopback_gets_a_long_token(monkeypatch):
    import outlark.review.serving as serving

    monkeypatch.setattr(serving, "is_loopback", lambda host: False)
    address = serving.bind("127.0.0.1", 0)
    try:
        assert len(address.token) >= 43
        assert address.url.endswith(f"#t={address.token}")
        assert address.hosts == [f"127.0.0.1:{address.port}"], "no other name is served"
    finally:
        address.socket.close()


# ------------------------------------------------------------------ trouble


def test_a_recording_that_vanishes_is_told(tmp_path, demo_recordings):
    shutil.copy(next(demo_recordings.glob("*.wav")), tmp_path / "a.wav")
    with project_of([tmp_path]) as client:
        client.post("/api/classes", json={"name": "song"})
        client.post("/api/annotations", json={"recording_id": 1, "class_id": 1, "t0": 100, "t1": 5000})
        (tmp_path / "a.wav").unlink()
        assert "no longer exists" in client.get("/api/recordings/1").json()["missing"]
        for path in ("tiles/0/0", "clip?t0=0&t1=1", "block?t0=0&t1=1", "audio"):
            answer = client.get(f"/api/recordings/1/{path}")
            assert answer.status_code == 409
            assert "does not exist" in answer.json()["detail"]
        job = client.work("/api/train")
        assert job["state"] == "failed"
        assert "does not exist" in job["message"]


def test_corrupt_audio_is_told_and_the_rest_is_opened(tmp_path, demo_recordings):
    shutil.copy(next(demo_recordings.glob("*.wav")), tmp_path / "a.wav")
    (tmp_path / "b.wav").write_bytes(b"no sound")
    (tmp_path / "c.flac").write_bytes(b"")
    opened = open_project([tmp_path])
    assert [(p.where, "is a text file" in p.message or "empty" in p.message) for p in opened.problems] == [
        ("b.wav", True),
        ("c.flac", True),
    ]
    with Client(opened) as client:
        assert len(client.get("/api/project").json()["problems"]) == 2
    opened.project.close()
    with pytest.raises(InputError, match="no recording can be opened"):
        open_project([tmp_path / "b.wav"], tmp_path / "p")


def test_a_full_disk_is_told_and_nothing_is_half_done(client, monkeypatch):
    store = client.opened.project.store
    pages = store.row("PRAGMA page_count")["page_count"]
    monkeypatch.setattr(sqlite3, "connect", limited(sqlite3.connect, pages + 2))
    store.close()
    answers = [client.post("/api/classes", json={"name": f"{n}" + "x" * 50}) for n in range(60)]
    full = [a for a in answers if a.status_code == 507]
    assert full
    assert "full" in full[0].json()["detail"]
    assert len(client.get("/api/project").json()["classes"]) == len([a for a in answers if a.status_code == 201])


def test_no_room_for_an_upload_is_told(client, monkeypatch, demo_recordings):
    wav = next(demo_recordings.glob("*.wav")).read_bytes()

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    answer = client.put("/api/uploads/a.wav", content=wav)
    assert answer.status_code == 507
    assert "No space left" in answer.json()["detail"]
    assert uploads(client) == []


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path, demo_recordings):
    (tmp_path / "outlark-review").write_text("a file in the way")
    shutil.copy(next(demo_recordings.glob("*.wav")), tmp_path / "a.wav")
    with pytest.raises(InputError, match="--project"):
        open_project([tmp_path])


# ------------------------------------------------------------ made-up requests


@pytest.fixture(scope="module")
def schema(demo_recordings, trained_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema") / "project"
    shutil.copytree(trained_folder, folder)
    opened = open_project([demo_recordings], folder)
    app = make_app(opened, [HOST, "testserver"])  # the latter is how schemathesis calls it
    yield schemathesis.openapi.from_asgi("/api/openapi.json", app)
    opened.project.close()


#: Jobs that take seconds; they are tested elsewhere.
LONG = ("/api/train", "/api/scan")


def test_no_request_whatever_breaks_the_server(schema):
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 30
    codes: set[int] = set()
    for operation in operations:
        if operation.path in LONG:
            continue

        @given(case=operation.as_strategy())
        @settings(
            max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
        )
        def ask(case):
            answer = case.call(headers={"host": HOST, "origin": f"http://{HOST}"})
            codes.add(answer.status_code)
            assert answer.status_code < 500, f"{case.method} {case.formatted_path}: {answer.text[:300]}"

        ask()
    assert {200, 201, 404, 422} <= codes, "requests that are answered were among them"


def test_numbers_that_are_none_are_refused(client):
    for body in ('{"values": {"1": NaN}}', '{"values": {"1": 1e999}}', '{"values": {}}', '{"values": {"1": -1}}'):
        headers = {"content-type": "application/json"}
        assert client.put("/api/thresholds", content=body, headers=headers).status_code == 422
    for t0, t1 in ((5, 5), (100, 50), (10**15, 10**15 + 100)):
        body = {"recording_id": 1, "class_id": None, "t0": t0, "t1": t1}
        assert client.post("/api/annotations", json=body).status_code == 400
    assert json.loads(client.get("/api/project").text)["undo"] == 0


def test_sound_reaches_no_further_than_asked(client):
    answer = client.get("/api/recordings/1/clip", params={"t0": 0, "t1": 55})
    assert len(answer.content) == 44 + 2 * 30 * 22050
    assert soundfile.SoundFile(__import__("io").BytesIO(answer.content)).frames == 30 * 22050
