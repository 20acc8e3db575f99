"""The content of requests."""

from typing import Annotated, Literal

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field

#: Whole numbers that SQLite, JSON and JavaScript hold alike.
MOST = 2**53
Number = Annotated[int, Field(ge=0, le=MOST)]
Id = Annotated[int, Path(ge=0, le=MOST)]
Small = Annotated[int, Path(ge=0, le=2**31)]
Hertz = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]
Seconds = Annotated[float, Query(ge=0, le=1e8, allow_inf_nan=False)]
#: The key of a change, by which it is known when it comes again.
KEY = r"^[0-9a-z-]{8,64}$"
Key = Annotated[str | None, Header(alias="idempotency-key", pattern=KEY)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Body(BaseModel):
    """A body without other fields."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class NewAnnotation(Body):
    """A note annotated by hand."""

    recording_id: Number
    class_id: Number | None
    t0: Number
    t1: Number
    low_hz: Hertz | None = None
    high_hz: Hertz | None = None
    role: Literal["example", "truth", "negative"] = "example"


class ChangedAnnotation(Body):
    """New values of an annotation."""

    class_id: Number | None = None
    t0: Number | None = None
    t1: Number | None = None


class Judged(Body):
    """What a verdict is about: it is kept also if the detection was replaced before the verdict came."""

    recording_id: Number
    class_id: Number | None
    t0: Number
    t1: Number
    score: float


class Verdict(Body):
    """A person's verdict on a detection."""

    detection_id: Number
    found: Judged | None = None
    verdict: Literal["confirm", "reject", "relabel", "unknown", "unsure"]
    class_id: Number | None = None
    queue: Literal["uncertain", "random", "time", "cluster"] = "time"


class KeyedVerdict(Verdict):
    """A verdict with the key of its change."""

    key: str | None = Field(default=None, pattern=KEY)


class Verdicts(Body):
    """Verdicts that were given faster than they were sent."""

    verdicts: list[KeyedVerdict] = Field(min_length=1, max_length=200)


class Undo(Body):
    """What to undo: the change with this key, or the last one."""

    of: str | None = Field(default=None, pattern=KEY)


class NewName(Body):
    """The name of a class."""

    name: Name


class Promotion(Body):
    """A group of unknown sounds that becomes a class."""

    name: Name
    keep: list[Number] | None = Field(default=None, max_length=5000)
    k: int = Field(default=5, ge=1, le=60)


class Thresholds(Body):
    """Class id → threshold."""

    values: dict[int, Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]] = Field(min_length=1, max_length=1000)


class Start(Body):
    """What to train with."""

    recording_id: Number | None = None


class Token(Body):
    """The token that outlark printed."""

    token: str = Field(max_length=200)
