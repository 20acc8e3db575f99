"""When and where a recording was made: from GUANO, the header comment, or file and folder names."""

import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath

import soundfile

from outlark.audio.sound import for_decoder
from outlark.audio.wav_header import text_chunks
from outlark.errors import AudioError
from outlark.files.places import Place, as_place, is_url, name_of, opened

GUANO, COMMENT, FILE_NAME = "guano", "comment", "file name"
#: Other years come from a clock that was never set, or are not years.
FIRST_YEAR, LAST_YEAR = 1990, 2099
#: AudioMoth named files by hexadecimal seconds between these years.
HEX_YEARS = range(2016, 2031)
#: Sources that differ by no more agree: files are named a moment before or after the first sample.
TOLERANCE = timedelta(seconds=2)

#: AudioMoth: "Recorded at 12:34:56 24/10/2023 (UTC+2) by …"; early ones without a zone, later ones with milliseconds.
AUDIOMOTH = re.compile(
    r"Recorded at (\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))? (\d{1,2})/(\d{1,2})/(\d{4})"
    r"(?: \((UTC)(?:([+-])(\d{1,2})(?::(\d{2}))?)?\))?"
)
#: 20231024_123456, also with $, - or T between; 2023-10-24T12:34:56, also with other signs between the numbers;
#: BirdNET-Pi writes 2023-10-24-birdnet-12:34:56. Swift adds _-0400, BAR-LT +1000, others Z.
IN_NAME = re.compile(
    r"(?<!\d)(?P<year>\d{4})(?P<in_date>[-_.]?)(?P<month>\d{2})(?P=in_date)(?P<day>\d{2})"
    r"(?P<between>[_$T -]|-birdnet-)(?P<hour>\d{2})(?P<in_time>[-_.:]?)(?P<minute>\d{2})(?P=in_time)(?P<second>\d{2})"
    r"(?!\d)(?P<zone>_?[+-]\d{2}:?\d{2}(?!\d)|Z(?![a-z0-9]))?",
    re.IGNORECASE,
)
HEX_NAME = re.compile(r"(?=[0-9]*[a-f])[0-9a-f]{8}", re.IGNORECASE)
#: Fields of GUANO, in lower case, that hold the name of a site; a Song Meter's prefix, unless it is its serial number.
FIELDS = ("nabat|site name", "site name", "site", "wa|song meter|prefix", "wa|prefix")
#: How to find the site of a recording if the recorder did not store it.
AUTO, FOLDER, PARENT, NAME = "auto", "folder", "parent", "name"
NO_SITE = "(no site)"
#: Folders named by date or without meaning: 2023, 2023-10, 20231024, Data.
_NOT_A_SITE = re.compile(r"(\d{4})(?:[-_. ]?\d{2}(?:[-_. ]?\d{2})?)?|data|wav|audio|recordings", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class RecorderTime:
    """When a recording began.

    Attributes
    ----------
    began : datetime
        With a time zone only if the source states one.
    source : "guano", "comment" or "file name"
    differences : tuple of str
        What less trusted sources say instead; empty if they agree.
    expansion : float
        Time expansion (GUANO's TE): 10 for bats slowed down tenfold, else 1.

    Examples
    --------
    >>> began = time_in_name("SITE7_20231024_123456.WAV")
    >>> began.began.isoformat(), began.source, began.at(90.5).isoformat()
    ('2023-10-24T12:34:56', 'file name', '2023-10-24T12:36:26.500000')
    """

    began: datetime
    source: str
    differences: tuple[str, ...] = ()
    expansion: float = 1.0

    def at(self, start_s: float) -> datetime:
        """The time at a position in the file, to the microsecond."""
        return self.began + timedelta(seconds=start_s / self.expansion)


def recorder_time(path: str | os.PathLike[str]) -> RecorderTime | None:
    """When a recording (path or URL) began, or None.

    The most trusted source counts: the time stamp of GUANO, then the header comment as AudioMoth writes it, then the
    file name.

    Examples
    --------
    >>> import numpy, soundfile
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with soundfile.SoundFile(f"{folder}/20231024_1200.wav", "w", 8000, 1) as file:
    ...         file.comment = "Recorded at 12:34:56 24/10/2023 (UTC+2) by AudioMoth 24F3190361DA539A"
    ...         file.write(numpy.zeros(80))
    ...     found = recorder_time(f"{folder}/20231024_1200.wav")
    >>> found.began.isoformat(), found.source
    ('2023-10-24T12:34:56+02:00', 'comment')
    """
    path = as_place(path)
    try:
        texts = text_chunks(path)
    except FileNotFoundError:
        raise AudioError(f"{path} does not exist; check the path") from None
    except OSError as error:
        folder = isinstance(path, Path) and path.is_dir()
        what = "is a folder" if folder else f"cannot be opened ({error.strerror})"
        raise AudioError(f"{path} {what}; give the path of a sound file that you may read") from None
    comment = texts["ICMT"] if "ICMT" in texts else _comment(path)
    sources = (_time_in_guano(texts.get("guan", "")), _time_in_comment(comment), time_in_name(name_of(path)))
    found = [time for time in sources if time is not None]
    if not found:
        return None
    best, *others = found
    return replace(best, differences=tuple(_difference(best, other) for other in others if _differ(best, other)))


def time_in_name(name: str) -> RecorderTime | None:
    """When a recording with this file name began, or None.

    Examples
    --------
    >>> time_in_name("5E9089F0.WAV").began.isoformat()  # old AudioMoth: seconds since 1970, hexadecimal
    '2020-04-10T15:00:00+00:00'
    >>> time_in_name("SwiftOne_20220719_000000_-0400.wav").began.isoformat()
    '2022-07-19T00:00:00-04:00'
    >>> time_in_name("site1_2024-05-11_05-30-00.wav").began.isoformat()
    '2024-05-11T05:30:00'
    >>> time_in_name("B_20230230_120000.wav")  # no such day
    """
    for found in IN_NAME.finditer(name):
        began = _date_time("".join(found[part] for part in ("year", "month", "day", "hour", "minute", "second")))
        zone = found["zone"] or ""
        # a hyphen right after the time may start a serial number; ISO 8601 has a T, Swift an underscore
        stated = "" if zone.startswith("-") and found["between"] not in "Tt" else zone
        if began is not None:
            zone = stated.removeprefix("_").replace(":", "")
            return RecorderTime(began=began.replace(tzinfo=_zone(zone)), source=FILE_NAME)
    stem = name.split(".", 1)[0]
    if HEX_NAME.fullmatch(stem):
        began = datetime.fromtimestamp(int(stem, 16), UTC)
        if began.year in HEX_YEARS:
            return RecorderTime(began=began, source=FILE_NAME)
    return None


def _time_in_guano(text: str) -> RecorderTime | None:
    fields = guano_fields(text)
    stamp = re.sub(r"\s+(?=[+-]\d)", "", fields.get("timestamp", ""))
    stamp = re.sub(r"(?<=:\d\d[+-])(?=\d(:|$))", "0", stamp)  # a Song Meter Mini writes +1:00
    if ":" not in stamp and "T" not in stamp:  # a date without a time
        return None
    try:
        began = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    if not FIRST_YEAR <= began.year <= LAST_YEAR:
        return None
    expansion = fields.get("te", "")
    slowed = float(expansion) if re.fullmatch(r"\d{1,4}(\.\d+)?", expansion) else 1.0
    return RecorderTime(began=began, source=GUANO, expansion=slowed or 1.0)


def guano_fields(text: str) -> dict[str, str]:
    """Names, in lower case, and values of the lines of GUANO; the first of each name counts.

    >>> guano_fields("TE: 10\\nNABat|Site Name: Upper pond")
    {'te': '10', 'nabat|site name': 'Upper pond'}
    """
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _time_in_comment(comment: str) -> RecorderTime | None:
    match = AUDIOMOTH.search(comment)
    if match is None:
        return None
    hour, minute, second, part, day, month, year, utc, sign, hours, minutes = match.groups()
    began = _date_time(f"{year}{month:0>2}{day:0>2}{hour:0>2}{minute}{second}")
    if began is None:
        return None
    began = began.replace(microsecond=int((part or "0").ljust(6, "0")))
    if utc:
        began = began.replace(tzinfo=_zone(f"{sign}{hours:0>2}{minutes or '00'}") if sign else UTC)
    return RecorderTime(began=began, source=COMMENT)


def _comment(path: Path | str) -> str:
    """The comment of a file other than WAV: FLAC, Ogg, AIFF, MP3 …"""
    try:
        if is_url(path):
            with opened(path) as fetched, soundfile.SoundFile(fetched) as file:
                return str(file.copy_metadata().get("comment", ""))
        with soundfile.SoundFile(for_decoder(path)) as file:
            return str(file.copy_metadata().get("comment", ""))
    except (soundfile.SoundFileError, TypeError):  # TypeError: a name that ends in .raw
        return ""


def _date_time(digits: str) -> datetime | None:
    """From YYYYMMDDHHMMSS, or None."""
    try:
        found = datetime.strptime(digits, "%Y%m%d%H%M%S")
    except ValueError:
        return None
    return found if FIRST_YEAR <= found.year <= LAST_YEAR else None


def _zone(text: str) -> timezone | None:
    """From Z or +HHMM; None unless in quarters of an hour from -12 to +14 hours."""
    if text in ("Z", "z"):
        return UTC
    if not text:
        return None
    hours, minutes = int(text[1:3]), int(text[3:])
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)
    if minutes % 15 or not timedelta(hours=-12) <= offset <= timedelta(hours=14):
        return None
    return timezone(offset)


def _gap(one: datetime, other: datetime) -> timedelta:
    """How much later `other` is; a time without a zone is taken as local or UTC, whichever is nearer."""
    if (one.tzinfo is None) == (other.tzinfo is None):
        return other - one
    if one.tzinfo is None:
        return -_gap(other, one)
    local, utc = one.replace(tzinfo=None), one.astimezone(UTC).replace(tzinfo=None)
    return min(other - local, other - utc, key=abs)


def _differ(best: RecorderTime, other: RecorderTime) -> bool:
    return abs(_gap(best.began, other.began)) > TOLERANCE


def _difference(best: RecorderTime, other: RecorderTime) -> str:
    gap = _gap(best.began, other.began)
    when = "later" if gap > timedelta(0) else "earlier"
    return (
        f"the {other.source} says {other.began.isoformat(' ')}, {abs(gap)} {when} than the {best.source} "
        f"({best.began.isoformat(' ')})"
    )


# ------------------------------------------------------------------------- site


def recorder_site(path: Place) -> str | None:
    """The site that the recorder wrote into the file (GUANO), or None; OSError if the file cannot be read."""
    fields = guano_fields(text_chunks(path).get("guan", ""))
    for field in FIELDS:
        site = fields.get(field, "")
        if site and site != fields.get("serial"):
            return site
    return None


def site_of(recording: str, path: str, way: str = AUTO) -> str:
    """The site of a recording from its path; "(no site)" if it does not reveal one.

    Parameters
    ----------
    recording : str
        Its name in a run: the path below the deepest folder that holds all recordings, with "/".
    path : str
        Its full path, for recordings that are not in a folder of their own.
    way : str
        "folder": the first folder of the name, except dates, "Data" and the like. "parent": the folder of the file.
        "name": the part of the file name before the time. "auto": the first folder, else the part of the file name,
        else the folder of the file.

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
    """Whether a folder is named by date or without meaning.

    >>> [name for name in ("2023", "2023-10-24", "Data", "0042", "pond 2023") if _is_date_or_data(name)]
    ['2023', '2023-10-24', 'Data']
    """
    found = _NOT_A_SITE.fullmatch(folder)
    return found is not None and (found[1] is None or FIRST_YEAR <= int(found[1]) <= LAST_YEAR)


def _before_time(name: str) -> str:
    """The part of a file name before the time; blank without a time.

    >>> _before_time("SITE7_20231024_123456.WAV"), _before_time("5E9089F0.WAV"), _before_time("night.wav")
    ('SITE7', '', '')
    """
    at = IN_NAME.search(name)
    if at is None or HEX_NAME.fullmatch(name.split(".", 1)[0]):
        return ""
    return name[: at.start()].strip(" _-.$")
