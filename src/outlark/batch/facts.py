"""When and where a recording was made, and what is odd about it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Self

from outlark.annotations import Annotation
from outlark.audio.recorder_metadata import RecorderTime, recorder_site, recorder_time
from outlark.audio.sound import AudioFile
from outlark.errors import InputError

#: Attributes that are several sentences.
LISTS = ("remarks", "quality")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about a recording as a whole; kept with its scores for `decide`.

    Attributes
    ----------
    began : str or None
        Its start as ISO 8601, with a zone only if the recorder gives one; None if unknown.
    source : str or None
        Where `began` is from.
    expansion : float
        Seconds of the file per second of real time.
    site : str or None
        As written by the recorder.
    partial : str or None
        Why not all of it was analysed.
    remarks : tuple of str
        Anything else that is odd.
    quality : tuple of str
        Digital silence, clipping, or channels that cancel each other.
    counts : bool
        Whether it counts as recording effort: False if that is so for half of it or more.

    Examples
    --------
    >>> facts = Facts(began="2023-10-24T23:59:59", source="file name", partial="cut short")
    >>> annotation = facts.on(Annotation(start_s=1.5, end_s=2.0))
    >>> annotation.start_time, annotation.remark
    ('2023-10-25T00:00:00.500000', 'partial: cut short')
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
    def of_file(cls, audio: AudioFile) -> Self:
        """From the header and the name of a file."""
        clock = recorder_time(audio.path)
        when: dict[str, Any] = {"remarks": audio.remarks}
        if clock is not None:
            when = {"began": clock.began.isoformat(), "source": clock.source, "expansion": clock.expansion}
            when["remarks"] = (*clock.differences, *audio.remarks)
        return cls(partial=audio.partial, site=recorder_site(audio.path), **when)

    @classmethod
    def of_dict(cls, kept: Mapping[str, Any]) -> Self:
        """From `as_dict`."""
        try:
            facts = cls(**{**kept, **{name: tuple(kept.get(name, ())) for name in LISTS}})
            facts.on(Annotation(start_s=1.0, end_s=1.0))
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
        return {name: list(value) if name in LISTS else value for name, value in odd.items()}

    def for_journal(self) -> dict[str, Any]:
        """What the journal says about the recording, including what is unknown."""
        odd = {"partial": self.partial, "remarks": list(self.remarks), "quality": list(self.quality)}
        return {**odd, "counts": self.counts, "began": self.began, "expansion": self.expansion, "site": self.site}

    @property
    def all_remarks(self) -> tuple[str, ...]:
        partial = () if self.partial is None else (f"partial: {self.partial}",)
        return (*partial, *self.remarks, *self.quality)

    def on(self, annotation: Annotation) -> Annotation:
        """The annotation with its time of day and the remarks on its recording."""
        start_time = None
        if self.began is not None:
            clock = RecorderTime(
                began=datetime.fromisoformat(self.began), source=self.source or "", expansion=self.expansion
            )
            start_time = clock.at(annotation.start_s).isoformat(timespec="microseconds")
        return replace(annotation, start_time=start_time, remark="; ".join(self.all_remarks))
