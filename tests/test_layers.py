"""Imports point down only: maths ← estimators, metrics. The layers are those of ARCHITECTURE.md."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "outlark"
LAYERS = {"errors": 0, "maths": 1, "estimators": 2, "metrics": 2, "notes": 3, "__init__": 9}
THIRD_PARTY = {
    "maths": {"numpy", "scipy", "threadpoolctl", "minisom"},
    "metrics": {"numpy", "scipy", "sklearn"},
    "estimators": {"numpy", "scipy", "sklearn"},
}
STANDARD = sys.stdlib_module_names


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for module in imports(path):
        top, *rest = module.split(".")
        if top == "outlark":
            target = rest[0] if rest else "__init__"
            assert LAYERS[target] < LAYERS[here] or target == here, f"{path} imports {module}"
        elif here in THIRD_PARTY:
            assert top in THIRD_PARTY[here] | STANDARD, f"{path} imports {module}"


def test_no_room_for_odds_and_ends():
    assert not [p for p in SOURCE.rglob("*") if p.stem in {"utils", "helpers", "common", "core"}]
