"""Where a recorder stood, as it wrote it down: GUANO, or the beginning of the file name."""

import re
from pathlib import Path

from outlark.field.recorder_time import IN_NAME, guano_fields, time_in_name
from outlark.field.wave_chunks import text_chunks
from outlark.places import Place, name_of

#: Fields of GUANO that hold the name that a recorder was given, in small letters; the first that is there counts.
NAMES = ("site", "site name", "loc name", "wa|song meter|prefix", "wa|prefix")


def recorder_site(path: Place) -> str | None:
    """The name that a recorder was given, from the GUANO of a recording or from the beginning of its file name.

    Examples
    --------
    >>> site_in_name("POND7_20231024_123456.WAV"), site_in_name("20231024_123456.WAV")
    ('POND7', None)
    """
    try:
        fields = guano_fields(text_chunks(path).get("guan", ""))
    except OSError:
        fields = {}
    told = [fields[name] for name in NAMES if fields.get(name)]
    return told[0] if told else site_in_name(name_of(path))


def site_in_name(name: str) -> str | None:
    """What stands before date and time in a file name."""
    if time_in_name(name) is None:
        return None
    match = IN_NAME.search(Path(name).name)
    before = re.sub(r"[\s_.$-]+$", "", name[: match.start()]) if match else ""
    return before or None
