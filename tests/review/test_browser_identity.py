"""Moved projects and imported tables in a real browser."""

import pytest

from tests.review.browsing import Visit, chromium
from tests.review.test_identity import season, sound
from tests.review.test_importing import csv, raven

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")


def recordings(page: Visit) -> list[str]:
    return page.page.locator("#recording option").all_text_contents()


def test_a_moved_project_shows_each_recording_once_with_its_labels(visit, opens, tmp_path):
    folder = season(tmp_path / "season").rename(tmp_path / "moved")
    page = visit(opens(folder))
    assert recordings(page) == ["a", "c", "sub folder/b"]
    assert page.page.locator("#classes .name").all_text_contents() == ["song", "call"]
    assert page.page.locator("#alerts p").count() == 0
    assert len(page.get("/api/recordings/1/annotations")) == 1


def test_a_missing_recording_is_told_on_the_page(visit, opens, tmp_path):
    folder = season(tmp_path / "season")
    (folder / "a.wav").rename(tmp_path / "a.wav")
    sound(folder / "d.wav", 7)
    page = visit(opens(folder))
    assert recordings(page) == ["c", "d", "sub folder/b", "a (missing)"]
    page.page.wait_for_selector("#alerts:has-text('1 recording missing')")


def imported(page: Visit, name: str, table: str) -> None:
    page.page.set_input_files("#import", {"name": name, "mimeType": "text/plain", "buffer": table.encode()})
    page.page.wait_for_selector(f"#status:has-text('from {name}')")
    page.saved()


def test_a_table_goes_where_it_belongs_and_counts_once(visit, opens, tmp_path):
    """By its name although another recording is open, with its frequency limits; a second time it adds nothing."""
    for seed, name in enumerate(("A/1.wav", "B/1.wav", "B/2.wav")):
        sound(tmp_path / "season" / name, seed)
    page = visit(opens(tmp_path / "season"))
    table, name = raven((0.1, 0.2), (0.3, 0.4)), "2.Table.1.selections.txt"
    imported(page, name, table)
    assert "2 annotations" in page.page.text_content("#status")
    imported(page, name, table)
    page.page.wait_for_selector("#status:has-text('0 annotations')")
    assert "2 annotations there already" in page.page.text_content("#status")
    rows = [page.get(f"/api/recordings/{n}/annotations") for n in (1, 2, 3)]
    assert [len(one) for one in rows] == [0, 0, 2]
    assert {(row["low_hz"], row["high_hz"]) for row in rows[2]} == {(1500.5, 3000.0)}
    imported(page, "sites.csv", csv("A/1.wav", "B/1.wav", "1.wav", "C/1.wav"))
    page.page.wait_for_selector("#alerts:has-text('could be A/1.wav or B/1.wav')")
    page.page.wait_for_selector("#alerts:has-text('not in this project: C/1.wav')")
    assert [len(page.get(f"/api/recordings/{n}/annotations")) for n in (1, 2, 3)] == [1, 1, 2]
