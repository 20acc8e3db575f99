"""Time that several recordings of one site share, such as copies of a file, counts once."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from outlark.audio.recorder_metadata import TOLERANCE
from outlark.commands.summary.tally import Listened


def counted_once(listened: Iterable[Listened]) -> tuple[list[Listened], dict[str, float]]:
    """The recordings, each without the time that earlier ones of its site cover; and how many seconds that are.

    Recordings that are covered as a whole are left out. Clocks are compared only if both have a zone, or neither has.
    A few seconds, as files that follow each other may share, do not matter.

    >>> from datetime import datetime
    >>> began = datetime(2024, 5, 11, 5)
    >>> one = Listened(recording="a.wav", site="pond", began=began, seconds=600.0)
    >>> later = replace(one, recording="b.wav", began=began.replace(minute=5))
    >>> whole, shared = counted_once([later, one, replace(one, recording="copy.wav")])
    >>> [(of.recording, of.covered_s) for of in whole], shared
    ([('b.wav', 300.0), ('a.wav', 0.0)], {'copy.wav': 600.0, 'b.wav': 300.0})
    """
    listed = list(listened)
    of_site: dict[tuple[str, bool], list[tuple[int, Listened]]] = defaultdict(list)
    for one in listed:
        if one.first_us is not None and one.began is not None:
            of_site[one.site, one.began.tzinfo is None].append((one.first_us, one))
    shared: dict[str, float] = {}
    for recordings in of_site.values():
        until = None
        for first, one in sorted(recordings, key=lambda found: (found[0], found[1].recording)):
            end = first + round(one.seconds / one.expansion * 1e6)
            common = 0 if until is None else min(until, end) - first
            if common > TOLERANCE.total_seconds() * 1e6:
                shared[one.recording] = common / 1e6 * one.expansion
            until = end if until is None else max(until, end)
    kept = [replace(one, covered_s=shared.get(one.recording, 0.0)) for one in listed]
    return [one for one in kept if one.covered_s < one.seconds or not one.covered_s], shared
