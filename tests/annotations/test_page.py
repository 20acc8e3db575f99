"""docs/formats.md: all formats are on it, and its examples are what it says."""

import re
from pathlib import Path

import pytest

from outlark.annotations import FORMATS, read_annotations
from outlark.annotations.columns import LABEL_COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
EXAMPLES = [
    (name, example)
    for name, section in re.findall(r"^### `(\w+)`\n(.*?)(?=^### |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    for example in re.findall(r"```text\n(.*?)```", section, flags=re.DOTALL)
]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_on_the_page(name):
    (row,) = [
        line for line in PAGE.split("\n") if line.startswith("| ") and f"`{name}`" in line.split("|")[1] and "|" in line
    ][:1]
    assert FORMATS[name].suffix in row or not FORMATS[name].writes
    assert FORMATS[name].extra is None or f"outlark[{FORMATS[name].extra}]" in row


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_examples_are_of_the_format(name, example, tmp_path):
    (tmp_path / "example.txt").write_text(example, encoding="utf-8")
    table = read_annotations(tmp_path / "example.txt")
    assert table.format == name
    assert 0.25 <= table.annotations[0].start_s < table.annotations[0].end_s <= 0.75


def test_all_formats_of_text_have_an_example():
    expected = ["raven", "audacity", "kaleidoscope", "birdnet", "dcase", "csv", "csv", "jsonl"]
    assert [name for name, _ in EXAMPLES] == expected


def test_the_usual_names_of_label_columns_are_listed():
    listed = re.search(r"entirely blank: (.*?)\.", PAGE, flags=re.DOTALL).group(1)
    assert re.split(r",\s+", listed.replace("\n", " ")) == [name.replace("_", " ") for name in LABEL_COLUMNS]
