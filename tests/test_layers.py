"""Imports point down only. The layers are those of ARCHITECTURE.md."""

import ast
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "outlark"
LAYERS = {
    "errors": 0,
    "plain_text": 0,
    "version": 0,
    "files": 1,
    "maths": 1,
    "metrics": 1,
    "segments": 1,
    "audio": 2,
    "estimators": 2,
    "annotations": 3,
    "features": 3,
    "detection": 4,
    "data": 4,
    "embeddings": 4,
    "paper": 5,
    "model_file": 6,
    "batch": 7,
    "commands": 8,
    "paper.experiment": 9,
    "review": 9,
    "cli": 10,
    "__main__": 11,
    "__init__": 12,
}
THIRD_PARTY = {
    "maths": {"numpy", "scipy", "threadpoolctl"},
    "metrics": {"numpy", "scipy", "sklearn"},
    "estimators": {"numpy", "scipy", "sklearn", "minisom"},
    "files": {"numpy", "sklearn", "safetensors", "fsspec", "platformdirs"},
    "audio": {"numpy", "scipy", "soundfile", "soxr"},
    "features": {"numpy", "scipy", "sklearn"},
    "detection": {"numpy", "scipy", "sklearn"},
    "model_file": {"numpy", "scipy", "sklearn"},
    "embeddings": {"numpy", "sklearn", "ai_edge_litert"},
    "commands": {"numpy", "scipy", "sklearn", "soundfile", "matplotlib", "sounddevice"},
    "data": {"numpy", "scipy", "soundfile"},
    "paper": {"numpy", "scipy", "sklearn"},
    "paper.experiment": {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl", "soundfile", "matplotlib"},
    "batch": {"numpy", "scipy", "sklearn", "soundfile", "soxr", "threadpoolctl", "distributed"},
    "review": {"numpy", "scipy", "sklearn", "soundfile", "fastapi", "starlette", "pydantic", "uvicorn"},
    "cli": {"click", "rich", "fastapi", "uvicorn"},
}
#: Slow to import, or not always there: only inside the function that needs them.
HEAVY = {"matplotlib", "pandas", "pyarrow", "crowsetta", "soundevent", "guano", "rich", "ai_edge_litert", "uvicorn"}
STANDARD = sys.stdlib_module_names


def imports(path: Path) -> set[str]:
    return named(ast.walk(ast.parse(path.read_text())))


def named(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def layer_of(names: Sequence[str]) -> str:
    """The name in `LAYERS` of a module; a subpackage may have a layer of its own."""
    inner = ".".join(names[:2])
    return inner if inner in LAYERS else names[0] if names else "__init__"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    here = layer_of(path.relative_to(SOURCE).with_suffix("").parts)
    for module in imports(path):
        top, *rest = module.split(".")
        if top == "outlark":
            target = layer_of(rest)
            assert LAYERS[target] < LAYERS[here] or target == here, f"{path} imports {module}"
        elif here in THIRD_PARTY:
            assert top in THIRD_PARTY[here] | STANDARD, f"{path} imports {module}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_imports_wait_until_they_are_needed(path):
    assert not HEAVY & {module.split(".")[0] for module in named(ast.parse(path.read_text()).body)}


def test_every_module_and_package_has_its_layer():
    found = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found == {name.split(".")[0] for name in LAYERS}


def test_no_room_for_odds_and_ends():
    assert not [p for p in SOURCE.rglob("*") if p.stem in {"utils", "helpers", "common", "core"}]
