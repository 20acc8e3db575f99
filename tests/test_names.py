"""No two classes and no two module-level constants of outlark have the same name: "where is X?" has one answer."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "outlark"
#: Names that may occur in several modules, with the reason.
ALLOWED = {
    "__all__",  # what a package offers
    "routes",  # each module of the review page's API has a router
}


def defined(path: Path) -> Iterator[str]:
    """The classes and constants of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}


def twice() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in set(defined(path)):
            found[name].append(path.relative_to(SOURCE).as_posix())
    return {name: places for name, places in found.items() if len(places) > 1}


def test_every_name_has_one_meaning():
    assert {name: places for name, places in twice().items() if name not in ALLOWED} == {}
