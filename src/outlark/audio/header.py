"""When and where a recording was made: from GUANO, the header comment, or file and folder names; and `Facts`."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Protocol, Self, TypeVar

from outlark.errors import InputError

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
SITE_FIELDS = ("nabat|site name", "site name", "site", "wa|song meter|prefix", "wa|prefix")
#: How to find the site of a recording if the recorder did not store it.
AUTO, FOLDER, PARENT, NAME = "auto", "folder", "parent", "name"
NO_SITE = "(no site)"
#: Folders named by date or without meaning: 2023, 2023-10, 20231024, Data.
_NOT_A_SITE = re.compile(r"(\d{4})(?:[-_. ]?\d{2}(?:[-_. ]?\d{2})?)?|data|wav|audio|recordings", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class RecorderTime:
    """When a recording began, with a time zone only if the source states one.

    `differences` is what less trusted sources say instead; empty if they agree. `expansion` is the time expansion
    (GUANO's TE): 10 for bats slowed down tenfold, else 1.

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


def recorder_time(guano: str, comment: str, name: str) -> RecorderTime | None:
    """When a recording began, or None: from the most trusted of GUANO, header comment (AudioMoth's) and file name.

    >>> comment = "Recorded at 12:34:56 24/10/2023 (UTC+2) by AudioMoth 24F3190361DA539A"
    >>> found = recorder_time("", comment, "20231024_1200.wav")
    >>> found.began.isoformat(), found.source
    ('2023-10-24T12:34:56+02:00', 'comment')
    """
    sources = (_time_in_guano(guano), _time_in_comment(comment), time_in_name(name))
    found = [time for time in sources if time is not None]
    if not found:
        return None
    best, *others = found
    return replace(best, differences=tuple(_difference(best, other) for other in others if _differ(best, other)))


def time_in_name(name: str) -> RecorderTime | None:
    """When a recording with this file name began, or None.

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


def recorder_site(guano: str) -> str | None:
    """The site that the recorder wrote into the file, or None."""
    fields = guano_fields(guano)
    for field in SITE_FIELDS:
        site = fields.get(field, "")
        if site and site != fields.get("serial"):
            return site
    return None


def site_of(recording: str, path: str, way: str = AUTO) -> str:
    """The site of a recording from its path; "(no site)" if it does not reveal one.

    `recording` is its name in a run: the path below the deepest folder that holds all recordings, with "/"; `path` its
    full path, for recordings that are not in a folder of their own. The `way` is "folder": the first folder of the
    name, except dates, "Data" and the like; "parent": the folder of the file; "name": the part of the file name before
    the time; or "auto": the first folder, else the part of the file name, else the folder of the file.

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


# ------------------------------------------------------------------------- facts


class HasOnset(Protocol):
    """An annotation, which this package does not know."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def start_s(self) -> float: ...


Note = TypeVar("Note", bound=HasOnset)
#: Attributes that are several sentences.
FACTS_LISTS = ("remarks", "quality")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about a recording as a whole; kept with its scores for `decide`.

    It `began` at a time in ISO 8601, with a zone only if the recorder gives one, as some `source` says. `expansion` is
    in seconds of the file per second of real time, `site` as the recorder wrote it, `partial` says why not all of it
    was analysed, `quality` tells digital silence, clipping, or channels that cancel each other, and `remarks` anything
    else that is odd. It `counts` as recording effort unless half of it or more cannot be listened to.

    >>> facts = Facts(began="2023-10-24T23:59:59", source="file name", partial="cut short")
    >>> facts.time_at(1.5), facts.all_remarks
    ('2023-10-25T00:00:00.500000', ('partial: cut short',))
    """

    began: str | None = None
    source: str | None = None
    expansion: float = 1.0
    site: str | None = None
    partial: str | None = None
    remarks: tuple[str, ...] = ()
    quality: tuple[str, ...] = ()
    counts: bool = True

    @classmethod
    def of_recorder(
        cls, clock: RecorderTime | None, *, site: str | None, partial: str | None, remarks: tuple[str, ...]
    ) -> Self:
        """From the header and the name of a file."""
        if clock is None:
            return cls(site=site, partial=partial, remarks=remarks)
        return cls(
            began=clock.began.isoformat(),
            source=clock.source,
            expansion=clock.expansion,
            site=site,
            partial=partial,
            remarks=(*clock.differences, *remarks),
        )

    @classmethod
    def of_dict(cls, kept: Mapping[str, Any]) -> Self:
        """From `as_dict`."""
        try:
            facts = cls(**{**kept, **{name: tuple(kept.get(name, ())) for name in FACTS_LISTS}})
            facts.time_at(1.0)
            "".join(facts.all_remarks)
            if not isinstance(facts.site, str | None):
                raise TypeError(f"site is {facts.site!r:.60}")
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InputError(
                f"the description of the recording is damaged ({error!s:.100}); keep the scores again"
            ) from None
        return facts

    def and_also(self, remark: str | None) -> Self:
        return self if remark is None else replace(self, remarks=(*self.remarks, remark))

    def as_dict(self) -> dict[str, Any]:
        """JSON values; defaults are omitted."""
        usual = asdict(Facts())
        odd = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return {name: list(value) if name in FACTS_LISTS else value for name, value in odd.items()}

    def for_journal(self) -> dict[str, Any]:
        """What the journal says about the recording, including what is unknown."""
        odd = {"partial": self.partial, "remarks": list(self.remarks), "quality": list(self.quality)}
        return {**odd, "counts": self.counts, "began": self.began, "expansion": self.expansion, "site": self.site}

    @property
    def all_remarks(self) -> tuple[str, ...]:
        partial = () if self.partial is None else (f"partial: {self.partial}",)
        return (*partial, *self.remarks, *self.quality)

    @property
    def remark(self) -> str:
        return "; ".join(self.all_remarks)

    def time_at(self, start_s: float) -> str | None:
        """The time of day at a position in the file, ISO 8601."""
        if self.began is None:
            return None
        began = datetime.fromisoformat(self.began)
        clock = RecorderTime(began=began, source=self.source or "", expansion=self.expansion)
        return clock.at(start_s).isoformat(timespec="microseconds")

    def on(self, annotation: Note) -> Note:
        """The annotation with its time of day and the remarks on its recording."""
        return replace(annotation, start_time=self.time_at(annotation.start_s), remark=self.remark)
