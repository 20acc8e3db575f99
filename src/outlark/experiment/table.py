"""A table of text, and four ways to write it: plain text, for a terminal, Markdown, HTML."""

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outlark.plain_text import visible

if TYPE_CHECKING:
    import rich.table

#: What cannot be told: a category without notes, a test on one seed.
NOTHING = "–"
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|&~#$])")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells of text under heads; the first column names the row.

    Attributes
    ----------
    title : str
    head : tuple of str
    rows : tuple of tuples of str
        Each as long as the head.
    notes : tuple of str
        What a reader has to know, below the table.
    blocks : frozenset of int
        Rows that are a heading for those below: only their first cell holds something.
    lines : frozenset of int
        Rows with a line above.
    apart : frozenset of int
        Rows that are not of this experiment: they are for reference.
    best : frozenset of (int, int)
        Row and column of cells that stand out.
    n_left : int
        So many columns hold words and begin at the left; the others hold numbers.

    Examples
    --------
    >>> table = Table(title="Notes", head=("class", "found"), rows=(("song", "12"), ("call", "3")), best={(0, 1)})
    >>> print(table.text())
    Notes
    <BLANKLINE>
    class  found
    song     12*
    call      3
    <BLANKLINE>
    * the best of its column
    >>> print(table.markdown().splitlines()[-2])
    | song | **12** |
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    blocks: frozenset[int] | set[int] = frozenset()
    lines: frozenset[int] | set[int] = frozenset()
    apart: frozenset[int] | set[int] = frozenset()
    best: frozenset[tuple[int, int]] | set[tuple[int, int]] = frozenset()
    n_left: int = 1

    def __post_init__(self) -> None:
        for name in ("title", "head", "rows", "notes"):  # names of classes and files may hold anything
            object.__setattr__(self, name, _visible(getattr(self, name)))

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """Aligned columns; the best cells have a star, rows that stand apart are in brackets."""
        marked = [self.head, *(self._starred(i) for i in range(len(self.rows)))]
        starred = {column for _, column in self.best}
        cells = [
            [_one_line(cell) + " " * (c in starred and not cell.endswith("*")) for c, cell in enumerate(row)]
            for row in marked
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [_one_line(self.title), "", self._aligned(cells[0], widths)]
        for i, row in enumerate(cells[1:]):
            lines += [rule] * (i in self.lines) + [self._aligned(row, widths)]
        legend = ["* the best of its column"] if self.best else []
        return "\n".join([*lines, *([""] if self.notes or legend else []), *legend, *self.notes])

    def rich(self) -> "rich.table.Table":
        """For a terminal: the best cells bold, rows that stand apart dim."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            title=Text(self.title), title_justify="left", caption=Text("\n".join(self.notes)), caption_justify="left"
        )
        for column, name in enumerate(self.head):
            table.add_column(Text(name), justify="left" if column < self.n_left else "right")
        for i, row in enumerate(self.rows):
            if i in self.lines and i:
                table.add_section()
            base = "italic" if i in self.blocks else "dim" if i in self.apart else ""
            table.add_row(*(Text(cell, "bold" if (i, c) in self.best else base) for c, cell in enumerate(row)))
        return table

    def markdown(self) -> str:
        """For a README: headings of blocks in italics, the best cells bold; no lines between rows, it has none."""
        aligned = ["---" if column < self.n_left else "---:" for column in range(len(self.head))]
        rows = [list(map(_markdown, self.head)), aligned]
        for i, row in enumerate(self.rows):
            cells = [f"**{_markdown(c)}**" if (i, n) in self.best else _markdown(c) for n, c in enumerate(row)]
            if i in self.blocks or i in self.apart:
                cells = [f"*{cell}*" if cell else "" for cell in cells]
            rows.append(cells)
        lines = [f"**{_markdown(self.title)}**", "", *(f"| {' | '.join(row)} |" for row in rows)]
        return "\n".join([*lines, *(f"\n{_markdown(note)}" for note in self.notes)])

    def html(self) -> str:
        """A `table` in a `div` that scrolls, and a paragraph for each note. Everything is escaped."""
        title = html.escape(self.title)
        head = "".join(
            f'<th scope="col"{self._side(column)}>{_words(name)}</th>' for column, name in enumerate(self.head)
        )
        body = "".join(
            ("</tbody>\n<tbody>\n" if i in self.lines and i else "") + self._tr(i) for i in range(len(self.rows))
        )
        table = (
            f"<table>\n<caption>{title}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"
        )
        notes = "".join(f'<p class="note">{html.escape(note)}</p>\n' for note in self.notes)
        return f'<div class="scroll" role="region" aria-label="{title}" tabindex="0">\n{table}\n</div>\n{notes}'

    def _tr(self, i: int) -> str:
        first, *cells = self.rows[i]
        if i in self.blocks:
            name = html.escape(first)
            return f'<tr class="block"><th scope="rowgroup" colspan="{len(self.head)}">{name}</th></tr>\n'
        kind = ' class="apart"' if i in self.apart else ""
        shown = "".join(
            f"<td{self._side(c)}>{self._strong(i, c, html.escape(cell))}</td>" for c, cell in enumerate(cells, start=1)
        )
        return f'<tr{kind}><th scope="row">{html.escape(first)}</th>{shown}</tr>\n'

    def _strong(self, i: int, c: int, text: str) -> str:
        return f"<strong>{text}</strong>" if (i, c) in self.best else text

    def _side(self, column: int) -> str:
        return ' class="words"' if column < self.n_left else ""

    def _aligned(self, cells: list[str], widths: list[int]) -> str:
        pairs = enumerate(zip(cells, widths, strict=True))
        return "  ".join(c.ljust(width) if i < self.n_left else c.rjust(width) for i, (c, width) in pairs).rstrip()

    def _starred(self, i: int) -> list[str]:
        row = [f"{cell}*" if (i, c) in self.best else cell for c, cell in enumerate(self.rows[i])]
        return [f"[{row[0]}]", *row[1:]] if i in self.apart else row


def _visible(text: Any) -> Any:
    return visible(text) if isinstance(text, str) else tuple(map(_visible, text))


def _words(text: str) -> str:
    """HTML that breaks between words, not at the hyphens of names."""
    return " ".join(f"<span>{html.escape(word)}</span>" for word in text.split())


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _one_line(text))
