"""The loop without a browser: annotation, train, review, undo, discover, retrain, export."""

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from outlark.annotations import read_annotations
from outlark.data.demo_recordings import demo_sound
from outlark.data.synthetic import SAMPLE_RATE
from outlark.errors import InputError
from outlark.metrics.windows import wilson
from outlark.model_file import load
from outlark.review.opening import open_project
from outlark.review.project import Job
from tests.recordings_on_disk import outlark
from tests.review.conftest import KNOWN, Client, annotation, project_of


def found_by(client: Client, recording: int = 1) -> list[dict]:
    return client.get(f"/api/recordings/{recording}/detections").json()


def names(client: Client) -> dict[int, str]:
    return {c["id"]: c["name"] for c in client.get("/api/project").json()["classes"]}


def truth_at(detection: dict, placed: list) -> list[str]:
    a, b = (detection[key] / SAMPLE_RATE for key in ("t0", "t1"))
    return [p.label for p in placed if min(b, p.end_s) - max(a, p.start_s) > 0.5 * (p.end_s - p.start_s)]


def test_three_notes_of_each_class_find_the_others(trained_client):
    _, placed = demo_sound(0)
    labels = names(trained_client)
    found = found_by(trained_client)
    right = [d for d in found if d["class_id"] is not None and truth_at(d, placed) == [labels[d["class_id"]]]]
    there = sum(p.label in KNOWN for p in placed)
    assert len(right) >= 0.9 * there
    assert sum(d["class_id"] is not None for d in found) <= 1.1 * there
    assert all(d["reason"] for d in found)


def test_verdicts_survive_a_new_model_and_become_examples(trained_client):
    client = trained_client
    queue = client.get("/api/queue", params={"order": "time"}).json()["items"]
    pending = [item for item in queue if item["status"] == "pending"][:6]
    for item in pending[:4]:
        outcome = client.post("/api/reviews", json={"detection_id": item["id"], "verdict": "confirm"}).json()
        assert outcome["statuses"][str(item["id"])] == "confirmed"
    client.post("/api/reviews", json={"detection_id": pending[4]["id"], "verdict": "reject"})
    client.post("/api/reviews", json={"detection_id": pending[5]["id"], "verdict": "unsure"})
    project = client.get("/api/project").json()
    assert project["run"]["new"] == 5
    assert sum(c["negatives"] for c in project["classes"]) == 1
    assert client.work("/api/train")["state"] == "done"
    again = {(d["recording_id"], d["t0"] // 500): d for d in found_by(client)}
    kept = [again.get((item["recording_id"], item["t0"] // 500), {}) for item in pending]
    assert [one.get("status") for one in kept].count("confirmed") >= 3
    # it is not found as a note of that class again, or its verdict is still known
    assert kept[4].get("class_id") != pending[4]["class_id"] or kept[4]["status"] == "rejected"
    project = client.opened.project
    model = load(project.folder / project.run()["model"])
    assert [note["label"] for note in model.model_.negatives] == [names(client)[pending[4]["class_id"]]]
    assert client.get("/api/project").json()["run"]["new"] == 0


def test_a_second_verdict_takes_the_place_of_the_first(trained_client):
    client = trained_client
    item = client.get("/api/queue").json()["items"][0]
    other = next(number for number in names(client) if number != item["class_id"])
    before = len(client.get(f"/api/recordings/{item['recording_id']}/annotations").json())
    for verdict, status in (("confirm", "confirmed"), ("reject", "rejected"), ("unknown", "relabelled")):
        body = {"detection_id": item["id"], "verdict": verdict}
        assert client.post("/api/reviews", json=body).json()["statuses"][str(item["id"])] == status
    body = {"detection_id": item["id"], "verdict": "relabel", "class_id": other}
    assert client.post("/api/reviews", json=body).json()["statuses"][str(item["id"])] == "relabelled"
    after = client.get(f"/api/recordings/{item['recording_id']}/annotations").json()
    assert len(after) == before + 1
    assert client.post("/api/reviews", json={"detection_id": item["id"], "verdict": "relabel"}).status_code == 400


def test_verdicts_in_a_batch_are_those_given_one_by_one(trained_client):
    client = trained_client
    pending = [i for i in client.get("/api/queue").json()["items"] if i["status"] == "pending"][:5]
    verdicts = [
        {"detection_id": i["id"], "verdict": v} for i, v in zip(pending, ["confirm", "reject"] * 3, strict=False)
    ]
    verdicts.insert(2, {"detection_id": 10**6, "verdict": "confirm"})
    outcomes = client.post("/api/reviews/batch", json={"verdicts": verdicts}).json()["outcomes"]
    assert [sorted(one) == ["error"] for one in outcomes] == [False, False, True, False, False, False]
    status = {item["id"]: item["status"] for item in client.get("/api/queue").json()["items"]}
    assert [status[item["id"]] for item in pending] == ["confirmed", "rejected", "confirmed", "rejected", "confirmed"]
    for _ in range(5):
        assert client.post("/api/undo").json()["kind"].startswith("review: ")
    status = {item["id"]: item["status"] for item in client.get("/api/queue").json()["items"]}
    assert [status[item["id"]] for item in pending] == ["pending"] * 5


def test_undo_takes_everything_back_and_redo_does_it_again(trained_client):
    client = trained_client
    states = [client.get("/api/recordings/1/annotations").json()]
    for item in client.get("/api/queue", params={"order": "random"}).json()["items"][:8]:
        client.post("/api/reviews", json={"detection_id": item["id"], "verdict": "confirm", "queue": "random"})
        states.append(client.get("/api/recordings/1/annotations").json())
    for state in states[-2::-1]:
        assert client.post("/api/undo").json()["kind"] == "review: confirm"
        assert client.get("/api/recordings/1/annotations").json() == state
    assert client.get("/api/project").json()["precision"] == {}
    for state in states[1:]:
        client.post("/api/redo")
        assert client.get("/api/recordings/1/annotations").json() == state
    assert client.post("/api/redo").json()["kind"] is None


def test_precision_is_estimated_from_random_reviews_only(trained_client):
    client = trained_client
    items = client.get("/api/queue", params={"order": "random"}).json()["items"]
    own = [item for item in items if item["class_id"] == items[0]["class_id"]][:6]
    for item, verdict in zip(own, ["confirm"] * 3 + ["reject"] + ["unsure"], strict=False):
        client.post("/api/reviews", json={"detection_id": item["id"], "verdict": verdict, "queue": "random"})
    client.post("/api/reviews", json={"detection_id": own[5]["id"], "verdict": "reject", "queue": "uncertain"})
    estimate = client.get("/api/project").json()["precision"][str(own[0]["class_id"])]
    low, high = wilson(3, 4)
    assert estimate == {"right": 3, "n": 4, "low": low, "high": high}


def test_wilson_limits_are_those_of_the_score_test(rng):
    """The limits are the shares at which a test of that share is just not significant."""
    for right, n in ((0, 5), (3, 7), (50, 51), (12, 12)):
        low, high = wilson(right, n)
        for share in {low, high} - {0.0, 1.0}:
            assert abs(right / n - share) / np.sqrt(share * (1 - share) / n) == pytest.approx(1.959964)


def test_queues_have_their_orders(trained_client):
    client = trained_client
    asked = {
        order: client.get("/api/queue", params={"order": order}).json() for order in ("uncertain", "random", "time")
    }
    ids = {order: [item["id"] for item in found["items"]] for order, found in asked.items()}
    assert len({frozenset(of) for of in ids.values()}) == 1
    assert len({tuple(of) for of in ids.values()}) == 3
    ratios = [abs(np.log(item["ratio"])) for item in asked["uncertain"]["items"]]
    assert ratios == sorted(ratios)
    times = [(item["recording_id"], item["t0"]) for item in asked["time"]["items"]]
    assert times == sorted(times)
    assert ids["random"] == [item["id"] for item in client.get("/api/queue?order=random").json()["items"]]
    unknown = client.get("/api/queue", params={"of": "unknown"}).json()["items"]
    assert unknown
    assert all(item["class_id"] is None for item in unknown)


def test_missed_notes_are_estimated_from_unknown_sounds(trained_client):
    client = trained_client
    items = client.get("/api/queue", params={"of": "unknown", "order": "random"}).json()["items"]
    label = next(iter(names(client)))
    relabel = {"detection_id": items[0]["id"], "verdict": "relabel", "class_id": label, "queue": "random"}
    client.post("/api/reviews", json=relabel)
    client.post("/api/reviews", json={"detection_id": items[1]["id"], "verdict": "unknown", "queue": "random"})
    missed = client.get("/api/project").json()["missed"]
    assert (missed["missed"], missed["n"]) == (1, 2)


def test_a_note_that_is_relabelled_as_its_own_class_is_confirmed(trained_client):
    client = trained_client
    item = client.get("/api/queue", params={"order": "random"}).json()["items"][0]
    body = {"detection_id": item["id"], "verdict": "relabel", "class_id": item["class_id"], "queue": "random"}
    assert client.post("/api/reviews", json=body).json()["statuses"][str(item["id"])] == "confirmed"
    precision = client.get("/api/project").json()["precision"][str(item["class_id"])]
    assert (precision["right"], precision["n"]) == (1, 1)


def test_unknown_sounds_are_grouped_by_kind_and_become_a_class(trained_client):
    client = trained_client
    project = client.get("/api/project").json()
    groups = [client.get(f"/api/clusters/{c['id']}").json() for c in project["clusters"]]
    truth = {r: demo_sound(r - 1)[1] for r in (1, 2)}
    kinds = [{label for m in group for label in truth_at(m, truth[m["recording_id"]])} for group in groups]
    assert {"cach-E"} in kinds
    assert {"tuti-A"} in kinds
    at = kinds.index({"cach-E"})
    number, members = project["clusters"][at]["id"], [m["id"] for m in groups[at]]
    promoted = client.post(f"/api/clusters/{number}/promote", json={"name": "cach-E", "keep": members[1:], "k": 4})
    assert promoted.status_code == 201
    added = promoted.json()["annotations"]
    assert [(a["t0"], a["role"], a["origin"]) for a in added] == [
        (m["t0"], "example", "cluster") for m in groups[at][1:5]
    ]
    assert client.work("/api/train")["state"] == "done"
    new = next(c for c in client.get("/api/project").json()["classes"] if c["name"] == "cach-E")
    there = sum(p.label == "cach-E" for placed in truth.values() for p in placed)
    assert 0.8 * there <= new["found"] <= 1.2 * there
    shown = {group["id"] for group in client.get("/api/project").json()["clusters"]}
    assert shown
    assert number not in shown, "groups belong to the model that found them"
    assert client.post("/api/clusters/999999/promote", json={"name": "x"}).status_code == 404


def test_thresholds_move_are_applied_and_undone(trained_client):
    client = trained_client
    run = client.get("/api/project").json()["run"]
    before = found_by(client)
    client.put("/api/thresholds", json={"values": {str(c): 50.0 for c in run["class_ids"]}})
    assert client.work("/api/decide")["state"] == "done"
    assert not [d for d in found_by(client) if d["class_id"] is not None]
    assert client.post("/api/undo").json()["thresholds"]
    assert client.work("/api/decide")["state"] == "done"
    without_id = [{k: v for k, v in d.items() if k != "id"} for d in before]
    assert [{k: v for k, v in d.items() if k != "id"} for d in found_by(client)] == without_id


def test_candidates_are_what_lower_thresholds_find(trained_client):
    client = trained_client
    run = client.get("/api/project").json()["run"]
    low = {c: 0.5 * run["priors"][str(c)] for c in run["class_ids"]}
    shown = {
        (int(c), t0, t1) for c, t0, t1, score in client.get("/api/recordings/1/candidates").json() if score >= low[c]
    }
    client.put("/api/thresholds", json={"values": {str(c): t for c, t in low.items()}})
    client.work("/api/decide")
    decided = {(d["class_id"], d["t0"], d["t1"]) for d in found_by(client) if d["class_id"] is not None}
    assert len(shown & decided) >= 0.85 * len(decided)


def test_histograms_hold_all_candidates(trained_client):
    client = trained_client
    for of_class in client.get("/api/calibration").json():
        n = sum(
            c == of_class["class_id"] for r in (1, 2) for c, *_ in client.get(f"/api/recordings/{r}/candidates").json()
        )
        assert sum(of_class["counts"]) == n
        assert of_class["threshold"] == of_class["prior"]


FORMATS = ("raven", "csv", "audacity", "jsonl")


@pytest.fixture(scope="module")
def detected(demo_recordings, trained_folder, tmp_path_factory) -> Path:
    """What `outlark detect` gives for the model of the trained project, in a folder with that model."""
    folder = tmp_path_factory.mktemp("detected")
    shutil.copyfile(trained_folder / "models" / "run-1.outlark", folder / "model.outlark")
    wavs = sorted(demo_recordings.glob("*.wav"))
    formats = [word for name in FORMATS for word in ("-f", name)]
    how = ("-j", "1", "-q", "--no-calibrate")  # the page searches with the thresholds it shows
    done = outlark("detect", folder / "model.outlark", *wavs, "-o", folder / "found", *formats, *how)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_exported_is_what_detect_gives(trained_client, detected, format):
    exported = trained_client.get("/api/export", params={"format": format, "scope": "decided"})
    with zipfile.ZipFile(io.BytesIO(exported.content)) as archive:
        tables = {name: archive.read(name) for name in archive.namelist() if not name.endswith(".about.json")}
    assert len(tables) == 2
    for name, content in tables.items():
        assert content == (detected / "found" / name).read_bytes()


def test_the_model_has_the_thresholds_that_were_set(trained_client, demo_recordings, tmp_path):
    client = trained_client
    run = client.get("/api/project").json()["run"]
    client.put("/api/thresholds", json={"values": {str(run["class_ids"][0]): 0.4}})
    client.work("/api/decide")
    (tmp_path / "model.outlark").write_bytes(client.get("/api/model").content)
    detector = load(tmp_path / "model.outlark")
    assert detector.layout_.thresholds.tolist().count(0.4) == 1
    (wav, *_) = sorted(demo_recordings.glob("*.wav"))
    ours = [(d["t0"], d["t1"], d["score"]) for d in found_by(client)]
    assert ours == [(s.start, s.end, s.score) for s in detector.detect(wav) if s.verdict != "silence"]


def test_corrections_are_in_the_export_and_can_be_read_back(trained_client, tmp_path):
    client = trained_client
    items = [d for d in found_by(client) if d["status"] == "pending" and d["class_id"] is not None]
    other = next(number for number in names(client) if number != items[1]["class_id"])
    client.post("/api/reviews", json={"detection_id": items[0]["id"], "verdict": "reject"})
    client.post("/api/reviews", json={"detection_id": items[1]["id"], "verdict": "relabel", "class_id": other})
    for scope in ("corrected", "reviewed"):
        answer = client.get("/api/export", params={"format": "csv", "scope": scope, "recording": 1})
        path = tmp_path / f"{scope}.outlark.csv"
        path.write_bytes(answer.content)
        annotations = {round(m.start_s, 4): m.label for m in read_annotations(path).annotations}
        assert round(items[0]["t0"] / SAMPLE_RATE, 4) not in annotations
        assert annotations[round(items[1]["t0"] / SAMPLE_RATE, 4)] == names(client)[other]
        assert len(annotations) >= (30 if scope == "corrected" else 9)


def test_an_odd_example_is_named(client):
    annotation(client, n=5, labels=("tuti-D", "cach-Z"))
    _, placed = demo_sound(0)
    odd = next(p for p in placed if p.label == "tuti-A")
    label = next(n for n, name in names(client).items() if name == "tuti-D")
    span = {"t0": round(odd.start_s * SAMPLE_RATE), "t1": round(odd.end_s * SAMPLE_RATE)}
    wrong = client.post("/api/annotations", json={"recording_id": 1, "class_id": label, **span}).json()
    assert client.work("/api/train")["state"] == "done"
    told = next(c for c in client.get("/api/project").json()["classes"] if c["id"] == label)["odd"]
    assert [o["annotation"] for o in told] == [wrong["annotations"][0]["id"]]
    assert "unlike" in told[0]["problem"]


def test_the_examples_that_speak_for_a_note_are_of_its_class(trained_client):
    client = trained_client
    ours = {a["id"]: a for a in client.get("/api/recordings/1/annotations").json()}
    found = [d for d in found_by(client) if d["class_id"] is not None]
    for detection in found[:6]:
        told = client.get(f"/api/detections/{detection['id']}/evidence").json()
        assert len(told) == 2
        assert {one["class_id"] for one in told} == {detection["class_id"]}
        assert all(ours[one["id"]]["t0"] == one["t0"] for one in told)
        assert told[0]["share"] >= told[1]["share"]
    example = next(d for d in found if d["status"] == "confirmed")
    (best, _) = client.get(f"/api/detections/{example['id']}/evidence").json()
    assert abs(best["t0"] - example["t0"]) < 0.02 * SAMPLE_RATE, "an example speaks most for itself"
    unknown = next(d for d in found_by(client) if d["class_id"] is None)
    assert client.get(f"/api/detections/{unknown['id']}/evidence").status_code == 200
    assert client.get("/api/detections/999999/evidence").status_code == 404


def test_training_can_be_cancelled_and_continued(client):
    annotation(client)
    project = client.opened.project
    cancelled = []

    def cancel_at_first_search() -> None:
        job = project.jobs.last
        if job is not None and "searching" in job.message and not cancelled:
            cancelled.append(client.delete(f"/api/jobs/{job.id}").status_code)

    tell = Job.tell

    def watched(self: Job, progress: float, message: str) -> None:
        self.message = message
        cancel_at_first_search()
        tell(self, progress, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "tell", watched)
        assert client.work("/api/train")["state"] == "cancelled"
    assert cancelled == [200]
    run = client.get("/api/project").json()["run"]
    assert run["searched"] == 0
    assert client.work("/api/scan")["state"] == "done"
    assert client.get("/api/project").json()["run"]["searched"] == 2
    assert found_by(client)


def test_nothing_to_train_on_is_told(client):
    job = client.work("/api/train")
    assert (job["state"], "mark a few notes" in job["message"]) == ("failed", True)
    assert client.post("/api/decide").status_code == 202
    assert client.put("/api/thresholds", json={"values": {"1": 1.0}}).status_code == 400


@pytest.mark.parametrize("with_model", [False, True])
def test_results_of_a_run_are_opened(trained_client, detected, tmp_path, with_model):
    shutil.copytree(detected / "found", tmp_path / "found")
    with project_of([tmp_path / "found"], model=detected / "model.outlark" if with_model else None) as client:
        if with_model:
            assert client.get("/api/project").json()["run"]["searched"] == 0
            assert client.work("/api/scan")["state"] == "done"
        ours = [(d["t0"], d["t1"], d["verdict"]) for d in found_by(client)]
        assert ours == [(d["t0"], d["t1"], d["verdict"]) for d in found_by(trained_client)]
        item = client.get("/api/queue").json()["items"][0]
        assert client.post("/api/reviews", json={"detection_id": item["id"], "verdict": "confirm"}).status_code == 201
        project = client.get("/api/project").json()
        assert project["run"]["has_model"] == with_model
        assert project["run"]["new"] == 1
    again = open_project([tmp_path / "found"])
    assert len(again.project.store.rows("SELECT * FROM annotation")) == 1
    again.project.close()


@pytest.mark.parametrize("only_rejections", [False, True])
def test_corrections_train_the_model_of_the_results_again(detected, tmp_path, only_rejections):
    """One click: the model that lies beside its results, its own examples, and what was corrected."""
    shutil.copytree(detected, tmp_path / "run")
    with project_of([tmp_path / "run" / "found"]) as client:
        before = client.get("/api/project").json()
        assert before["run"]["given"] == "model.outlark"
        assert [c["of_model"] for c in before["classes"]] == [3, 3, 3]
        # the examples of the model are in the first recording
        known = [
            i for i in client.get("/api/queue", params={"order": "time"}).json()["items"] if i["recording_id"] == 2
        ]
        for number, item in enumerate(known[:8]):
            verdict = "reject" if only_rejections or number == 5 else "confirm"
            client.post("/api/reviews", json={"detection_id": item["id"], "verdict": verdict})
            if only_rejections:
                break
        job = client.work("/api/train")
        assert job["state"] == "done", job["message"]
        now = client.get("/api/project").json()
        assert (now["run"]["id"], now["run"]["given"], now["run"]["new"]) == (2, "model.outlark", 0)
        model = load(client.opened.project.folder / client.opened.project.run()["model"])
        assert len(model.model_.negatives) == 1
        assert len(model.model_.training) == (9 if only_rejections else 16)
        assert model.model_.lineage[-1]["name"] == "model.outlark"
        assert found_by(client)
        # once more from the same model: the corrections do not count twice
        assert client.work("/api/train")["state"] == "done"
        again = load(client.opened.project.folder / client.opened.project.run()["model"])
        assert (len(again.model_.training), len(again.model_.negatives)) == (len(model.model_.training), 1)


def test_results_without_their_model_train_on_corrections_alone(detected, tmp_path):
    shutil.copytree(detected / "found", tmp_path / "found")
    with project_of([tmp_path / "found"]) as client:
        assert client.get("/api/project").json()["run"]["given"] is None
        for item in client.get("/api/queue", params={"order": "time"}).json()["items"][:12]:
            client.post("/api/reviews", json={"detection_id": item["id"], "verdict": "confirm"})
        assert client.work("/api/train")["state"] == "done"
        model = load(client.opened.project.folder / client.opened.project.run()["model"])
        assert len(model.model_.training) == 12


def test_results_do_not_go_with_another_model(detected, tmp_path):
    shutil.copytree(detected / "found", tmp_path / "found")
    (tmp_path / "other.outlark").write_bytes(b"something else")
    with pytest.raises(InputError, match="is not the model that made these results"):
        open_project([tmp_path / "found"], model=tmp_path / "other.outlark")


def test_a_change_that_comes_again_is_stored_once(trained_client):
    """Its key tells; an undo of a change is refused once something else was changed."""
    item = next(i for i in trained_client.get("/api/queue").json()["items"] if i["status"] == "pending")
    body, key = {"detection_id": item["id"], "verdict": "unknown"}, "a" * 32
    count = "SELECT count(*) AS n FROM event"
    before = trained_client.opened.project.store.row(count)["n"]
    first = trained_client.post("/api/reviews", json=body, headers={"idempotency-key": key}).json()
    assert first["before"] != first["revision"]
    again = trained_client.post("/api/reviews", json=body, headers={"idempotency-key": key}).json()
    batch = trained_client.post("/api/reviews/batch", json={"verdicts": [{**body, "key": key}]}).json()["outcomes"]
    assert again == batch[0] == {"again": True}
    assert trained_client.opened.project.store.row(count)["n"] == before + 1
    trained_client.post("/api/classes", json={"name": "another"})
    assert trained_client.post("/api/undo", json={"of": key}).status_code == 400
    trained_client.post("/api/undo")
    undone = [
        trained_client.post("/api/undo", json={"of": key}, headers={"idempotency-key": "b" * 32}).json()
        for _ in range(2)
    ]
    assert undone[0]["kind"] == "review: unknown"
    assert undone[1] == {"again": True}
