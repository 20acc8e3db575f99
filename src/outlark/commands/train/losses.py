"""What marks lose in a format of tables: those that were written against those that are read again."""

from collections import Counter
from collections.abc import Sequence

from outlark.annotations import Mark
from outlark.segments import KNOWN

#: Times that are as near as this are the same; other numbers are written with six digits.
SAME_S = SAME_NUMBER = 1e-6
FIELDS = {
    "label": "label", "recording": "recording", "verdict": "verdict", "score": "score", "runner_up": "runner-up",
    "runner_up_score": "runner-up's score", "reason": "reason", "channel": "channel", "low_hz": "low frequency",
    "high_hz": "high frequency", "sample_rate": "sample rate", "more": "other columns",
}  # fmt: skip
_NOTHING: tuple[object, ...] = (None, "", {})


def losses(written: Sequence[Mark], read: Sequence[Mark]) -> list[str]:
    """What is not there any more, in words.

    Parameters
    ----------
    written : sequence of Mark
    read : sequence of Mark
        The same in the same order, without those that the format leaves out.

    Examples
    --------
    >>> marks = [Mark(start_s=0, end_s=1, verdict="silence"), Mark(start_s=1, end_s=2, label="a", score=0.123)]
    >>> losses(marks, [Mark(start_s=1, end_s=2, label="a", score=0.12)])
    ['left out: 1 mark, silence', 'rounded: score (1 mark)']
    """
    left_out: Counter[str] = Counter()
    others: dict[str, Counter[str]] = {"lost": Counter(), "changed": Counter(), "rounded": Counter()}
    rest = iter(read)
    again = next(rest, None)
    for mark in written:
        if again is None or not _same_place(mark, again):
            left_out[mark.verdict or "without a verdict"] += 1
            continue
        for field in FIELDS:
            what = _change(field, getattr(mark, field), getattr(again, field))
            if what:
                others[what][field] += 1
        again = next(rest, None)
    told = [f"left out: {_marks(n)}, {verdict}" for verdict, n in left_out.items()]
    for what, counts in others.items():
        told += [f"{what}: {FIELDS[field]} ({_marks(n)})" for field, n in counts.items()]
    return told


def _same_place(mark: Mark, other: Mark) -> bool:
    return abs(other.start_s - mark.start_s) <= SAME_S and abs(other.end_s - mark.end_s) <= SAME_S


def _change(field: str, was: object, now: object) -> str | None:
    # a label without a verdict counts as known
    if was in _NOTHING or was == now or (field == "verdict" and was == KNOWN and now is None):
        return None
    if now in _NOTHING:
        return "lost"
    if isinstance(was, float) and isinstance(now, float):
        return "rounded" if abs(was - now) > SAME_NUMBER else None
    return "changed"


def _marks(n: int) -> str:
    return f"{n} mark{'s' if n > 1 else ''}"
