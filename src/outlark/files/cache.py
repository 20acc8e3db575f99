"""Where outlark keeps what it can fetch or compute again."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """OUTLARK_CACHE, or a folder in the place that the system has for that; it need not exist."""
    if given := os.environ.get("OUTLARK_CACHE"):
        return Path(given)
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):  # others are to be ignored, says the standard
        return Path(chosen, "outlark")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local", "outlark", "Cache")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "outlark"
