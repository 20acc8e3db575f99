"""Moved projects in a real browser."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import sync_playwright

from outlark.review.opening import Opened, open_project
from tests.review.browsing import FLAGS, Visit, chromium
from tests.review.test_identity import season, sound

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")


@pytest.fixture
def visit(serving: Callable[[Opened], str]) -> Iterator[Callable[[Opened], Visit]]:
    """Shows projects, which are closed after their pages."""
    shown: list[tuple[Opened, Visit]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)

        def to(opened: Opened) -> Visit:
            shown.append((opened, Visit(browser, serving(opened))))
            return shown[-1][1]

        yield to
        for opened, page in shown:
            page.close()
            opened.project.close()
        browser.close()


def recordings(page: Visit) -> list[str]:
    return page.page.locator("#recording option").all_text_contents()


def test_a_moved_project_shows_each_recording_once_with_its_labels(visit, tmp_path):
    folder = season(tmp_path / "season").rename(tmp_path / "moved")
    page = visit(open_project([folder]))
    assert recordings(page) == ["a", "c", "sub folder/b"]
    assert page.page.locator("#classes .name").all_text_contents() == ["song", "call"]
    assert page.page.locator("#alerts p").count() == 0
    assert len(page.get("/api/recordings/1/annotations")) == 1


def test_a_missing_recording_is_told_on_the_page(visit, tmp_path):
    folder = season(tmp_path / "season")
    (folder / "a.wav").rename(tmp_path / "a.wav")
    sound(folder / "d.wav", 7)
    page = visit(open_project([folder]))
    assert recordings(page) == ["c", "d", "sub folder/b", "a (missing)"]
    page.page.wait_for_selector("#alerts:has-text('1 recording missing')")
