"""At which site a recording was made: as the recorder wrote it down, or by the folders and names of its files."""

import re
from pathlib import Path, PurePosixPath

from outlark.audio.recorder_time import FIRST_YEAR, HEX_NAME, IN_NAME, LAST_YEAR, guano_fields
from outlark.audio.wave_chunks import text_chunks
from outlark.files.places import Place

#: Fields of GUANO, in small letters, that hold the name of a site; a Song Meter's prefix, unless it is its serial.
FIELDS = ("nabat|site name", "site name", "site", "wa|song meter|prefix", "wa|prefix")
#: Ways to tell the site of a recording that no recorder wrote down.
AUTO, FOLDER, PARENT, NAME = "auto", "folder", "parent", "name"
WAYS = (AUTO, FOLDER, PARENT, NAME)
NO_SITE = "(no site)"
#: Folders that say when, or nothing: 2023, 2023-10, 20231024, Data.
_NOT_A_SITE = re.compile(r"(\d{4})(?:[-_. ]?\d{2}(?:[-_. ]?\d{2})?)?|data|wav|audio|recordings", re.IGNORECASE)


def recorder_site(path: Place) -> str | None:
    """The site that the recorder wrote into the file (GUANO), or None.

    Raises
    ------
    OSError
        When the file cannot be read.
    """
    fields = guano_fields(text_chunks(path).get("guan", ""))
    for field in FIELDS:
        site = fields.get(field, "")
        if site and site != fields.get("serial"):
            return site
    return None


def site_of(recording: str, path: str, way: str = AUTO) -> str:
    """The site of a recording by where it is.

    Parameters
    ----------
    recording : str
        Its name in a run: the path below the deepest folder that holds all recordings, with "/".
    path : str
        Its whole path, for recordings in no folder of their own.
    way : str
        "folder": the first folder of the name that is neither a date nor "Data" or the like. "parent": the folder that
        the file is in. "name": what comes before the time in the name of the file. "auto": by the folder; without one,
        by the name of the file; without that, by the folder that the file is in.

    Returns
    -------
    str
        "(no site)" where nothing tells.

    Examples
    --------
    >>> site_of("pond/20231024/20231024_120000.WAV", "/disk/pond/20231024/20231024_120000.WAV")
    'pond'
    >>> site_of("SM4-N_20231024_120000.wav", "/disk/all/SM4-N_20231024_120000.wav")
    'SM4-N'
    >>> site_of("20231024_120000.WAV", "/disk/ridge/20231024_120000.WAV")
    'ridge'
    """
    file = PurePosixPath(recording)
    folders = [folder for folder in file.parts[:-1] if not _is_date_or_data(folder)]
    around = [folder for folder in reversed(Path(path).parts[1:-1]) if not _is_date_or_data(folder)]
    in_name = _before_time(file.name)
    found = {
        FOLDER: folders[:1] or around[:1],
        PARENT: folders[-1:] or around[:1],
        NAME: [in_name] if in_name else [],
        AUTO: folders[:1] or ([in_name] if in_name else around[:1]),
    }[way]
    return found[0] if found else NO_SITE


def _is_date_or_data(folder: str) -> bool:
    """Whether the name of a folder says when, or nothing.

    >>> [name for name in ("2023", "2023-10-24", "Data", "0042", "pond 2023") if _is_date_or_data(name)]
    ['2023', '2023-10-24', 'Data']
    """
    found = _NOT_A_SITE.fullmatch(folder)
    return found is not None and (found[1] is None or FIRST_YEAR <= int(found[1]) <= LAST_YEAR)


def _before_time(name: str) -> str:
    """What comes before the time in the name of a file; nothing where there is no time.

    >>> _before_time("SITE7_20231024_123456.WAV"), _before_time("5E9089F0.WAV"), _before_time("night.wav")
    ('SITE7', '', '')
    """
    at = IN_NAME.search(name)
    if at is None or HEX_NAME.fullmatch(name.split(".", 1)[0]):
        return ""
    return name[: at.start()].strip(" _-.$")
