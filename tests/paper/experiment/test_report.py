"""The report: one file that parses, with all that was run, nothing from the network, and escaped names."""

import base64
import io
import platform
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy
import sklearn
from matplotlib.image import imread

from outlark.paper.experiment.dataset import Protocol, draw
from outlark.paper.experiment.figure_1 import figure_1
from outlark.paper.experiment.report import SYNTHETIC_WARNING, changes_in_words, report
from outlark.version import __version__
from tests.paper.experiment.example_results import (
    DETECTORS,
    SMALL,
    fitted,
    renamed,
    run,
    synthetic,
    with_mistakes,
    without_known,
)

EMPTY = {"meta", "img", "br"}


class Page(HTMLParser):
    """A page whose tags must close in order; what it links to, its pictures, headings and words."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.tags, self.sources, self.links, self.words = [], [], [], [], []
        self.images = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.stack += [tag] if tag not in EMPTY else []
        self.sources += [given["src"]] if "src" in given else []
        self.links += [given["href"]] if "href" in given else []
        self.images += [given] if tag == "img" else []

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, text):
        if self.stack and self.stack[-1] != "style":
            self.words.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def whole():
    """A report with everything in it."""
    results, _ = run()
    drawn = draw(results.data, SMALL, seed=1)
    figure = figure_1(drawn, {one.title: fitted(one, drawn) for one in DETECTORS[:2]})
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return report(results, figure_1=picture.getvalue(), command="outlark experiment --seeds 3 > a & b")


def test_it_parses_and_has_its_sections(whole):
    page = Page(whole)
    assert page.tags.count("h1") == 1
    assert page.tags.count("h2") == 6


def test_nothing_comes_from_the_network(whole):
    page = Page(whole)
    assert page.sources
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert not {"script", "link", "iframe", "object", "embed"} & set(page.tags)
    assert page.links == ["https://arxiv.org/abs/2108.12857"]
    assert "url(" not in whole
    assert "@import" not in whole
    without_links = re.sub(r'<a href="[^"]*">', "", whole)
    assert "http" not in re.sub(r'src="data:[^"]*"', "", without_links)


def test_the_picture_is_the_figure(whole):
    (given,) = Page(whole).images
    pixels = imread(io.BytesIO(base64.b64decode(given["src"].partition(",")[2])), format="png")
    assert np.ptp(pixels[..., :3]) > 0.5
    assert given["alt"]


def test_it_tells_what_was_done(whole):
    text = Page(whole).text
    assert SYNTHETIC_WARNING in text
    assert "2 notes of each of the 3 known classes (tuti-D, tuti-F, cach-Z)" in text
    assert "at most 2 test notes of each class" in text
    assert "outlark experiment --seeds 3 > a & b" in text
    for name, version in [
        ("outlark", __version__),
        ("Python", platform.python_version()),
        ("numpy", np.__version__),
        ("scipy", scipy.__version__),
        ("scikit-learn", sklearn.__version__),
        ("on", platform.platform()),
        ("seeds", "1, 2, 3"),
    ]:
        assert f"{name} {version}" in text
    for title in ("whole notes, seed 1", "literal, seed 1"):
        assert f"True and assigned class of the notes: {title}" in text


def test_made_up_notes_are_called_so_on_top_and_others_are_not(whole):
    assert whole.index(SYNTHETIC_WARNING.replace("'", "&#x27;")) < whole.index("<h2")
    other = Page(report(with_mistakes(renamed({})))).text
    assert "synthetic, and" not in other
    assert "Experiment on renamed" in other


def test_a_folder_that_is_called_synthetic_is_not_made_up():
    data = replace(renamed({"cach-E": "a real note"}), name="synthetic")
    assert "synthetic, and" not in report(with_mistakes(data))


def test_names_are_escaped():
    names = {"tuti-D": "<b>&", "cach-E": '"><script>alert(1)</script>'}
    data = replace(renamed(names), name="<i>name", remarks=("<u>left out</u>",))
    results = with_mistakes(data, methods=[("mddkm", "<s>ours"), ("other", "</table>")])
    text = report(results, command="<em>")
    page = Page(text)
    assert not {"b", "script", "i", "u", "s", "em"} & set(page.tags)
    for name in ("<b>&", '"><script>alert(1)</script>', "<i>name", "<u>left out</u>", "<s>ours", "</table>", "<em>"):
        assert name in page.text


@pytest.mark.parametrize("make", [without_known, synthetic], ids=["drawn", "named"])
def test_a_single_seed_and_known_classes_that_are_drawn(make):
    page = Page(report(with_mistakes(make(), seeds=(4,))))
    assert "repeated for 1 seed" in page.text
    assert ("drawn anew" in page.text) == (make is without_known)


def test_every_change_of_the_protocol_is_told():
    other = Protocol(
        n_train=4,
        gap_s=0.25,
        snr_db=12.5,
        n_known=6,
        n_unknown=9,
        max_test=8,
    )
    words = changes_in_words(other)
    assert len(words) == len(vars(other))
    for number, said in zip(("4", "0.25", "12.5", "6", "9", "8"), words, strict=True):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", said)
    assert changes_in_words(Protocol()) == []
