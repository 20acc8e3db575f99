"""How Sphinx builds the site: `make docs`. Neither building nor reading it needs a network."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from outlark.version import __version__  # noqa: E402

project, author, release = "outlark", "The outlark developers", __version__
copyright = "the outlark developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
# scikit-learn's own docstrings refer to its own site
suppress_warnings = ["myst.header", "config.cache", "ref.ref", "ref.term", "autodoc", "autosummary.import_cycle"]
autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
html_theme = "furo"
html_title = "outlark"
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}


def _link_code(app: object, page: str, source: list[str]) -> None:
    """In "From the paper to the code", names of functions lead to their documentation and source."""
    if page == "paper-to-code":
        pattern = r"(?<![\[`{])`((?:maths|estimators|metrics|features|detection|paper|data)(?:\.\w+)+)`"
        source[0] = re.sub(pattern, r"{py:obj}`\1 <outlark.\1>`", source[0])


def setup(app: object) -> None:
    app.connect("source-read", _link_code)  # type: ignore[attr-defined]
