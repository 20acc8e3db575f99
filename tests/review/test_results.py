"""Results of `outlark detect` on the page, after `detect` was resumed or repeated into the same folder; remarks."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from outlark.data.demo_recordings import demo_sound
from outlark.data.synthetic import SAMPLE_RATE
from outlark.model_file import load, save
from outlark.review.opening import Opened, open_project
from tests.recordings_on_disk import outlark
from tests.review.browsing import Visit, chromium
from tests.review.conftest import Client, annotation

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")
PLACE = ("recording_id", "t0", "t1", "class_id")


def detect(model: Path, recordings: list[Path], folder: Path, *more: str) -> None:
    done = outlark("detect", model, *recordings, "-o", folder, "-f", "csv", "-j", "1", "-q", *more)
    assert done.returncode == 0, done.stderr


def rows(page: Visit) -> dict[tuple, str]:
    """Place and class of what is found, with the status of each."""
    items = page.get("/api/queue?order=time&limit=20000")["items"]
    return {tuple(item[key] for key in PLACE): item["status"] for item in items}


def test_the_page_follows_the_results_in_the_folder(trained_folder, demo_recordings, tmp_path, visit, opens):
    wavs = sorted(demo_recordings.glob("*.wav"))
    model, other = trained_folder / "models" / "run-1.outlark", tmp_path / "other.outlark"
    folder = tmp_path / "found"
    detect(model, wavs[:1], folder)
    first = opens(folder)
    page = visit(first)
    before = rows(page)
    page.page.select_option("#queue-order", "random")
    page.review_next()
    page.page.keyboard.press("y")
    page.saved()
    judged = [place for place, status in rows(page).items() if status == "confirmed"]
    assert len(judged) == 1
    page.page.goto("about:blank")  # it must not ask a project that is closed
    first.project.close()
    # resumed: a recording has come
    detect(model, wavs, folder)
    second = opens(folder)
    page = visit(second)
    assert page.page.locator("#recording option").count() == 2
    resumed = rows(page)
    assert {place: resumed[place] for place in before} == {**before, judged[0]: "confirmed"}
    assert {recording for recording, *_ in resumed} == {1, 2}
    estimates = page.get("/api/project")["precision"]
    assert sum(estimate["n"] for estimate in estimates.values()) == 1, "the verdict still counts"
    page.page.goto("about:blank")  # it must not ask a project that is closed
    second.project.close()
    # repeated with a model that finds nothing
    deaf = load(model)
    deaf.set_thresholds([1e3] * len(deaf.classes_))
    save(deaf, other)
    detect(other, wavs, folder, "--no-resume")
    third = opens(folder)
    page = visit(third)
    assert rows(page) == {}
    assert page.page.locator("#queue li").count() == 0
    assert len(third.project.store.rows("SELECT * FROM annotation WHERE origin = 'confirmed'")) == 1
    page.page.goto("about:blank")  # it must not ask a project that is closed
    third.project.close()
    # and once more with the first
    detect(model, wavs, folder, "--no-resume")
    assert rows(visit(opens(folder))) == resumed


def test_a_table_that_changed_is_read_again(trained_folder, demo_recordings, tmp_path):
    folder = tmp_path / "found"
    detect(trained_folder / "models" / "run-1.outlark", sorted(demo_recordings.glob("*.wav")), folder)
    found = _known(open_project([folder]))
    (table, _) = sorted(folder.glob("*.outlark.csv"))
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join([*lines[:-1]]))
    fewer = _known(open_project([folder]))
    assert len(fewer) == len(found) - 1
    assert _known(open_project([folder])) == fewer


def test_results_of_two_sites_with_equal_names_in_one_project(trained_folder, demo_recordings, tmp_path):
    """Each recording keeps what was found in it, whichever results were opened last, and after a change of one."""
    model, shared = trained_folder / "models" / "run-1.outlark", tmp_path / "shared"
    for site, wav in zip("AB", sorted(demo_recordings.glob("*.wav")), strict=True):
        (tmp_path / site).mkdir()
        shutil.copy(wav, tmp_path / site / "20240501_040000.wav")
        detect(model, [tmp_path / site], tmp_path / f"found-{site}")
    alone = [_known(open_project([tmp_path / f"found-{site}"])) for site in "AB"]
    both = [*alone[0], *((2, *row[1:]) for row in alone[1])]
    assert _known(open_project([tmp_path / "found-A"], shared)) == alone[0]
    for site in "BAB":
        assert _known(open_project([tmp_path / f"found-{site}"], shared)) == both
    (table,) = (tmp_path / "found-A").glob("*.outlark.csv")
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    fewer = _known(open_project([tmp_path / "found-A"], shared))
    assert [row for row in both if row not in fewer] == [alone[0][-1]]


def test_a_verdict_on_results_that_were_replaced_before_it_was_sent(
    trained_folder, demo_recordings, tmp_path, visit, opens, serving
):
    """The page stayed open while outlark was stopped, its tables changed, and outlark was started twice."""
    folder = tmp_path / "found"
    detect(trained_folder / "models" / "run-1.outlark", sorted(demo_recordings.glob("*.wav")), folder)
    first = opens(folder)
    page = visit(first)
    page.ignored = "Failed to load resource"
    page.review_next()
    serving.stop(page.url)
    page.page.keyboard.press("y")
    page.page.wait_for_selector("#foot.trouble #saved:has-text('not saved')")
    first.project.close()
    for table in folder.glob("*.outlark.csv"):
        table.write_text(table.read_text() + "\n")
    opens(folder).project.close()
    serving.again(opens(folder), page.url)
    page.page.wait_for_selector("#saved:has-text('All changes are saved.')")
    assert page.page.locator("#alerts").inner_text() == ""
    assert list(rows(page).values()).count("confirmed") == 1


def _known(opened: Opened) -> list[tuple]:
    rows = opened.project.store.rows("SELECT * FROM detection WHERE run_id > 0 ORDER BY recording_id, t0, t1")
    opened.project.close()
    return [tuple(row[key] for key in PLACE) for row in rows]


def test_remarks_of_the_training_are_shown_where_the_class_is(demo_recordings, tmp_path, visit, opens):
    """Sample rates that differ; and negatives that sound like the notes of their class."""
    wavs = sorted(demo_recordings.glob("*.wav"))
    shutil.copy(wavs[0], tmp_path / "a.wav")
    samples, _ = soundfile.read(wavs[1])
    soundfile.write(tmp_path / "b.wav", samples[: len(samples) // 4 * 4].reshape(-1, 4).mean(axis=1), SAMPLE_RATE // 4)
    opened = opens(tmp_path)
    with Client(opened) as client:
        annotation(client, labels=("tuti-D", "tuti-F"))
        high, low = (c["id"] for c in client.get("/api/project").json()["classes"])
        slow = [p for p in demo_sound(1)[1] if p.label == "tuti-F"][:3]
        for note in slow:
            span = {key: round(t * SAMPLE_RATE / 4) for key, t in (("t0", note.start_s), ("t1", note.end_s))}
            assert client.post("/api/annotations", json={"recording_id": 2, "class_id": low, **span}).status_code == 201
        for note in [p for p in demo_sound(0)[1] if p.label == "tuti-D"][3:5]:
            span = {key: round(t * SAMPLE_RATE) for key, t in (("t0", note.start_s), ("t1", note.end_s))}
            body = {"recording_id": 1, "class_id": high, "role": "negative", **span}
            assert client.post("/api/annotations", json=body).status_code == 201
    page = visit(opened)
    page.page.keyboard.press("t")
    page.job(1)
    of_class = page.page.locator("#classes li:nth-child(1) .remark")
    said = " | ".join(of_class.all_inner_texts())
    assert "cannot be told apart" in said
    assert f"resampled to {SAMPLE_RATE // 4} Hz" in said


def test_remarks_on_recordings_are_shown(trained_folder, demo_recordings, tmp_path, visit, opens):
    """As `detect` prints them: here a recording that holds nothing above a quarter of what the model listens to."""
    wavs = sorted(demo_recordings.glob("*.wav"))
    folder = tmp_path / "found"
    low = tmp_path / "low.wav"
    samples, _ = soundfile.read(wavs[0])
    spectrum = np.fft.rfft(samples)
    spectrum[len(spectrum) // 8 :] = 0
    soundfile.write(low, np.fft.irfft(spectrum, len(samples)), SAMPLE_RATE)
    (tmp_path / "broken.wav").write_bytes(b"RIFF nothing")
    model = trained_folder / "models" / "run-1.outlark"
    done = outlark("detect", model, low, tmp_path / "broken.wav", "-o", folder, "-f", "csv", "-j", "1")
    assert "low.wav" in done.stderr
    page = visit(opens(folder))
    assert "low" in page.page.locator("#remark-list").inner_text()
    assert "broken.wav" in page.page.locator("#alerts").inner_text()
