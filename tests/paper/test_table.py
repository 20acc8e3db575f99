"""Text, terminal and HTML versions of a table have the same cells, whatever is in them."""

import io
from html.parser import HTMLParser

import pytest
from rich.console import Console

from outlark.paper.protocol import Protocol
from outlark.paper.tables import Table, table_1, table_2, table_classes, table_learnt, table_tests
from tests.paper.example_results import renamed, run, with_mistakes

AWKWARD = {"tuti-D": "<b>&", "tuti-F": "a|b*c_d", "cach-E": "[link](x) `y`", "cach-C": '"quoted"'}
ODD = Table(
    title="<b>title</b>",
    head=("<b>head", "c|d", "*e*"),
    rows=(("<b>&", "<b>cell</b>", "x|y"), ("a_b", "**bold**", "\\n")),
    notes=("<b>note</b>",),
    lines={1},
    best={(0, 1)},
)


class Cells(HTMLParser):
    """Rows of cells of a page with one table."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open = [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.open = True
            self.rows[-1] += ["", *[""] * (int(dict(attrs).get("colspan", 1)) - 1)]
            self.at = len(self.rows[-1]) - int(dict(attrs).get("colspan", 1))

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, text):
        if self.open:
            self.rows[-1][self.at] += text


@pytest.fixture(
    scope="module",
    params=[
        lambda: table_1(with_mistakes(renamed(AWKWARD)), "mddkm", 1),
        lambda: table_2(with_mistakes(renamed(AWKWARD), Protocol())),
        lambda: table_tests(run()[0], "mddkm"),
        lambda: table_learnt(with_mistakes(renamed(AWKWARD))),
        lambda: table_classes(renamed(AWKWARD)),
        lambda: ODD,
    ],
    ids=["1", "2", "tests", "learnt", "classes", "odd"],
)
def table(request):
    return request.param()


def test_html_has_the_cells(table):
    text = table.html()
    assert Cells(text).rows == [list(row) for row in (table.head, *table.rows)]
    assert "<b>" not in text
    assert text.count("<strong>") == len(table.best)
    assert text.count('class="line') == len(table.lines)


def test_rich_has_the_cells(table):
    columns = [[str(column.header), *map(str, column.cells)] for column in table.rich().columns]
    assert [list(row) for row in zip(*columns, strict=True)] == [list(row) for row in (table.head, *table.rows)]
    console = Console(width=250, file=io.StringIO())
    console.print(table.rich())
    printed = console.file.getvalue()
    assert all(cell in printed for row in table.rows for cell in row)


def test_text_has_the_cells_in_columns(table):
    lines = table.text().splitlines()[2:]
    at = 0
    widths = None
    for i, row in enumerate((table.head, *table.rows)):
        at += i - 1 in table.lines
        line = lines[at + i]
        marked = [f"{cell}*" if (i - 1, c) in table.best else cell for c, cell in enumerate(row)]
        if i - 1 in table.apart:
            marked[0] = f"[{marked[0]}]"
        assert line.split() == " ".join(marked).split()
        if i - 1 in table.lines:
            assert set(lines[at + i - 1]) == {"-"}
        widths = max(widths or 0, len(line))
    assert all(note in table.text() for note in table.notes)
    assert all(len(line) <= widths for line in lines[: at + i + 1])


def test_a_star_does_not_move_its_column():
    table = Table(title="t", head=("a", "n"), rows=(("x", "1.0"), ("y", "12.0")), best={(1, 1)})
    assert table.text().splitlines()[2:5] == ["a     n", "x   1.0", "y  12.0*"]
