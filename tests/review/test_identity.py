"""Recordings keep their labels wherever they are moved to, and nothing is there twice."""

import io
import os
import shutil
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from outlark.annotations import read_annotations
from outlark.review.opening import open_project
from tests.recordings_on_disk import outlark
from tests.review.conftest import Client, project_of

RATE = 8000


def sound(path: Path, seed: int, seconds: float = 2.0) -> Path:
    """A recording of noise, which no other seed repeats."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.random.default_rng(seed).standard_normal(round(seconds * RATE)), RATE)
    return path


def labelled(client: Client, recording: int, label: str, t0: int = 1000) -> None:
    ids = {c["name"]: c["id"] for c in client.get("/api/project").json()["classes"]}
    if label not in ids:
        client.post("/api/classes", json={"name": label})
        ids = {c["name"]: c["id"] for c in client.get("/api/project").json()["classes"]}
    body = {"recording_id": recording, "class_id": ids[label], "t0": t0, "t1": t0 + 800}
    assert client.post("/api/annotations", json=body).status_code == 201


def shown(client: Client) -> dict[str, tuple[list[str], bool]]:
    """Of each recording the labels, and whether it is missing."""
    project = client.get("/api/project").json()
    names = {c["id"]: c["name"] for c in project["classes"]}
    found = {}
    for recording in project["recordings"]:
        rows = client.get(f"/api/recordings/{recording['id']}/annotations").json()
        found[recording["name"]] = [names[row["class_id"]] for row in rows], recording["missing"]
    assert len(found) == len(project["recordings"]), "names are distinct"
    return found


def ids(client: Client) -> dict[str, int]:
    return {r["name"]: r["id"] for r in client.get("/api/project").json()["recordings"]}


def exported(client: Client) -> dict[str, int]:
    """Annotation files of an export of everything, with the number of their rows."""
    answer = client.get("/api/export", params={"format": "csv", "scope": "reviewed"})
    assert answer.status_code == 200
    if not zipfile.is_zipfile(io.BytesIO(answer.content)):
        return {"": answer.content.count(b"\n") - 1}
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        listed = [name for name in archive.namelist() if name.endswith(".outlark.csv")]
        assert len(listed) == len(set(listed))
        return {name: sum(line[:1] != b"#" for line in archive.read(name).splitlines()) - 1 for name in listed}


def looked_at(*args: object, **more: object) -> dict[str, tuple[list[str], bool]]:
    with project_of(*args, **more) as client:
        return shown(client)


def season(folder: Path) -> Path:
    """A folder with three recordings, of which two are labelled."""
    for seed, name in enumerate(("a.wav", "sub folder/b.wav", "c.wav")):
        sound(folder / name, seed)
    with project_of([folder]) as client:
        number = ids(client)
        labelled(client, number["a.wav"], "song")
        labelled(client, number["sub folder/b.wav"], "call")
        labelled(client, number["sub folder/b.wav"], "song", 5000)
    return folder


KEPT = {"a.wav": (["song"], False), "c.wav": ([], False), "sub folder/b.wav": (["call", "song"], False)}


@pytest.mark.parametrize("how", ["moved", "moved twice", "copied", "through a link", "times lost"])
def test_a_folder_that_moves_keeps_its_labels(tmp_path, how):
    folder, there = season(tmp_path / "season"), tmp_path / "other place" / "2024"
    there.parent.mkdir()
    if how in ("moved", "moved twice"):
        folder.rename(there)
    elif how == "through a link":
        there.symlink_to(folder)
    else:
        shutil.copytree(folder, there, copy_function=shutil.copy if how == "times lost" else shutil.copy2)
    if how == "times lost":  # another computer: the old place is not there at all
        shutil.rmtree(folder)
    assert looked_at([there]) == KEPT
    if how == "moved twice":
        there = there.rename(folder)
    opened = open_project([there])
    assert opened.problems == []
    with Client(opened) as client:
        assert shown(client) == KEPT
        rows = exported(client)
        assert (rows["a.wav.outlark.csv"], rows["sub folder/b.wav.outlark.csv"]) == (1, 2)
    opened.project.close()


def test_recordings_that_are_renamed_keep_their_labels(tmp_path):
    """Even if two of them swap their names."""
    folder = season(tmp_path / "season")
    (folder / "a.wav").rename(folder / "tmp")
    (folder / "c.wav").rename(folder / "a.wav")
    (folder / "tmp").rename(folder / "c.wav")
    (folder / "sub folder" / "b.wav").rename(folder / "d.wav")
    assert looked_at([folder]) == {"a.wav": ([], False), "c.wav": (["song"], False), "d.wav": (["call", "song"], False)}


def test_detections_and_scores_move_with_the_folder(tmp_path, demo_recordings, trained_folder):
    """Thresholds are applied to kept scores, which lie in the project."""
    folder = tmp_path / "night"
    shutil.copytree(demo_recordings, folder, ignore=shutil.ignore_patterns("trained", "outlark-review"))
    shutil.copytree(trained_folder, folder / "outlark-review")
    counts = []
    for name in ("night", "day"):
        folder = folder.rename(tmp_path / name)
        with project_of([folder]) as client:
            project = client.get("/api/project").json()
            counts.append([(r["name"], r["known"], r["unknown"], r["missing"]) for r in project["recordings"]])
            assert client.work("/api/decide")["state"] == "done"
            assert client.get(f"/api/recordings/1/score_levels/{project['run']['id']}").json()["levels"] > 0
            answer = client.get("/api/export", params={"format": "csv", "scope": "corrected", "recording": 1})
            assert answer.content.count(b"\n") > 30
    assert counts[0] == counts[1]
    assert len(counts[0]) == 2


def test_what_is_missing_keeps_its_labels_and_comes_back(tmp_path):
    folder = season(tmp_path / "season")
    (folder / "a.wav").rename(tmp_path / "a.wav")
    with project_of([folder]) as client:
        assert shown(client) == {**KEPT, "a.wav": (["song"], True)}
        problems = client.get("/api/project").json()["problems"]
        assert len(problems) == 1
        assert "a.wav" in problems[0]["message"]
        assert exported(client)["a.wav.outlark.csv"] == 1
        (tmp_path / "a.wav").rename(folder / "a.wav")
        assert shown(client) == KEPT
        assert client.get("/api/project").json()["problems"] == []
    assert looked_at([folder]) == KEPT


def test_a_missing_recording_comes_back_from_another_place(tmp_path):
    folder = season(tmp_path / "season")
    (folder / "a.wav").rename(tmp_path / "a.wav")
    assert looked_at([folder])["a.wav"] == (["song"], True)
    (folder / "new").mkdir()
    (tmp_path / "a.wav").rename(folder / "new" / "renamed.wav")
    found = looked_at([folder])
    assert found["new/renamed.wav"] == (["song"], False)
    assert len(found) == 3


def test_another_recording_of_the_same_name_does_not_get_the_labels(tmp_path):
    """Recorders number their files anew each night, and all of them last a minute."""
    folder = season(tmp_path / "season")
    (folder / "a.wav").rename(tmp_path / "kept.wav")
    sound(folder / "a.wav", 99)
    with project_of([folder]) as client:
        found = shown(client)
        assert found["a.wav"] == ([], False)
        (earlier,) = [one for name, one in found.items() if name not in KEPT]
        assert earlier == (["song"], True)
        (number,) = [n for name, n in ids(client).items() if name not in KEPT]
        assert client.get(f"/api/recordings/{number}/clip?t0=0&t1=1").status_code == 409
        assert sum(exported(client).values()) == 3
    (tmp_path / "kept.wav").rename(folder / "kept.wav")
    assert looked_at([folder]) == {**KEPT, "a.wav": ([], False), "kept.wav": (["song"], False)}


def test_what_recorders_write_into_the_header_changes_no_recording(tmp_path):
    """Kaleidoscope and others add metadata to WAV files; lossless compression keeps the samples, too."""
    folder = season(tmp_path / "season")
    content = bytearray((folder / "a.wav").read_bytes())
    note = b"LIST" + (20).to_bytes(4, "little") + b"INFOICMT" + (8).to_bytes(4, "little") + b"checked\0"
    content[4:8] = (len(content) - 8 + len(note)).to_bytes(4, "little")
    (folder / "a.wav").write_bytes(content + note)
    samples, rate = soundfile.read(folder / "sub folder" / "b.wav")
    soundfile.write(folder / "sub folder" / "b.flac", samples, rate)
    (folder / "sub folder" / "b.wav").unlink()
    expected = {name.replace("b.wav", "b.flac"): one for name, one in KEPT.items()}
    assert looked_at([folder]) == expected
    assert looked_at([folder]) == expected


def test_names_in_another_normal_form_are_the_same_recording(tmp_path):
    """Disks of a Mac decompose accents."""
    name = "Mönchsgrasmücke é.wav"
    sound(tmp_path / "s" / unicodedata.normalize("NFC", name), 1)
    with project_of([tmp_path / "s"]) as client:
        labelled(client, 1, "song")
    (tmp_path / "s" / unicodedata.normalize("NFC", name)).rename(tmp_path / "s" / unicodedata.normalize("NFD", name))
    assert list(looked_at([tmp_path / "s"]).values()) == [(["song"], False)]


def test_names_that_are_not_text_can_be_opened(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    try:
        sound(folder / "a.wav", 1).rename(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.wav"))
    except OSError:
        pytest.skip("this disk takes no such names")
    for _ in range(2):
        assert [missing for _, missing in looked_at([folder]).values()] == [False]


# ------------------------------------------------------------ the project elsewhere


def test_two_folders_in_one_project_with_equal_names(tmp_path):
    """Two recordings, exported under names of their own, whichever folder is opened."""
    project = tmp_path / "project"
    for seed, site in enumerate("AB"):
        sound(tmp_path / site / "x.flac", seed)
        with project_of([tmp_path / site], project) as client:
            number = next(n for name, n in ids(client).items() if name.endswith("x.flac") and not name.startswith("A/"))
            for k in range(3 - seed):
                labelled(client, number, f"of {site}", 1000 * (k + 1))
    for given in (["A"], ["B"], ["A", "B"]):
        with project_of([tmp_path / site for site in given], project) as client:
            assert shown(client) == {"A/x.flac": (["of A"] * 3, False), "B/x.flac": (["of B"] * 2, False)}
            assert exported(client) == {"A/x.flac.outlark.csv": 3, "B/x.flac.outlark.csv": 2}
            alone = {
                client.get("/api/export", params={"format": "csv", "recording": n}).headers["content-disposition"]
                for n in ids(client).values()
            }
            assert len(alone) == 2, "single files are named differently, too"


def test_names_that_differ_in_case_only_are_exported_apart(tmp_path):
    """On the disks of Windows and macOS, one would overwrite the other."""
    sound(tmp_path / "s" / "x.wav", 1)
    sound(tmp_path / "s" / "X.WAV", 2)
    if len(list((tmp_path / "s").iterdir())) == 1:
        pytest.skip("names of this disk have no case")
    with project_of([tmp_path / "s"]) as client:
        assert len({name.casefold() for name in exported(client)}) == 2


def test_the_project_and_the_recordings_move_separately(tmp_path):
    """The project on the laptop, the recordings on a disk that is mounted elsewhere each time."""
    disk, project = tmp_path / "mnt" / "disk", tmp_path / "home" / "project"
    sound(disk / "a.wav", 1)
    with project_of([disk], project) as client:
        labelled(client, 1, "song")
    disk = disk.rename(tmp_path / "disk2")
    assert looked_at([disk], project) == {"a.wav": (["song"], False)}
    project = project.rename(tmp_path / "elsewhere")
    assert looked_at([disk], project) == {"a.wav": (["song"], False)}
    sound(tmp_path / "more" / "b.wav", 2)
    assert looked_at([tmp_path / "more"], project) == {"a.wav": (["song"], False), "b.wav": ([], False)}
    copied = shutil.copytree(disk, tmp_path / "copy")
    assert looked_at([copied], project) == {"a.wav": (["song"], False), "b.wav": ([], False)}


def test_a_project_is_opened_by_its_folder_alone(tmp_path):
    project = tmp_path / "project"
    sound(tmp_path / "s" / "a.wav", 1)
    open_project([tmp_path / "s"], project).project.close()
    assert looked_at([], project) == {"a.wav": ([], False)}
    assert looked_at([project]) == {"a.wav": ([], False)}
    (tmp_path / "s").rename(tmp_path / "t")
    assert looked_at([], project) == {"a.wav": ([], True)}
    assert looked_at([tmp_path / "t"], project) == {"a.wav": ([], False)}


def test_recordings_dropped_on_the_page_move_with_the_project(tmp_path):
    folder = season(tmp_path / "season")
    with project_of([folder]) as client:
        content = sound(tmp_path / "dropped.wav", 50).read_bytes()
        number = client.put("/api/uploads/dropped.wav", content=content).json()["id"]
        labelled(client, number, "dropped")
    assert looked_at([folder.rename(tmp_path / "moved")]) == {**KEPT, "dropped.wav": (["dropped"], False)}


def test_one_recording_behind_two_links_is_one(tmp_path):
    sound(tmp_path / "disk" / "a.wav", 1)
    (tmp_path / "s").mkdir()
    for name in ("a.wav", "same.wav"):
        (tmp_path / "s" / name).symlink_to(tmp_path / "disk" / "a.wav")
    assert len(looked_at([tmp_path / "s"])) == 1


def test_identical_recordings_are_kept_apart(tmp_path):
    """Dead recorders write files that are equal to the last byte; each stays what it is."""
    for name in ("A/x.wav", "B/x.wav"):
        path = tmp_path / "s" / name
        path.parent.mkdir(parents=True)
        soundfile.write(path, np.zeros(RATE), RATE)
    with project_of([tmp_path / "s"]) as client:
        labelled(client, ids(client)["B/x.wav"], "hum")
    expected = {"A/x.wav": ([], False), "B/x.wav": (["hum"], False)}
    assert looked_at([(tmp_path / "s").rename(tmp_path / "t")]) == expected


# ------------------------------------------------------------------ results of a run


def test_results_that_move_with_their_recordings_are_opened(tmp_path, trained_folder, demo_recordings):
    """Before and after the first opening; the journal knows only where they were."""
    folder = tmp_path / "night"
    shutil.copytree(demo_recordings, folder, ignore=shutil.ignore_patterns("trained", "outlark-review"))
    model = next((trained_folder / "models").glob("run-*.outlark"))
    outlark("detect", model, folder, "-o", folder / "found", "--format", "csv")
    folder = folder.rename(tmp_path / "moved before")
    counts = []
    for name in ("first", "second"):
        folder = folder.rename(tmp_path / name)
        with project_of([folder / "found"]) as client:
            project = client.get("/api/project").json()
            assert project["problems"] == []
            counts.append([(r["name"], r["known"], r["missing"]) for r in project["recordings"]])
    assert counts[0] == counts[1]
    assert [missing for _, _, missing in counts[0]] == [False, False]
    assert sum(known for _, known, _ in counts[0]) > 30


def test_exports_can_be_read_and_name_their_recordings(tmp_path):
    folder = season(tmp_path / "season").rename(tmp_path / "moved")
    with project_of([folder]) as client:
        number = ids(client)["sub folder/b.wav"]
        answer = client.get("/api/export", params={"format": "raven", "scope": "reviewed", "recording": number})
        path = tmp_path / "b.selections.txt"
        path.write_bytes(answer.content)
        assert len(read_annotations(path).annotations) == 2
