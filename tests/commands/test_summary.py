"""Counts, effort and rates against counting one by one, and intervals against SciPy's distributions."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from scipy import stats

from outlark.commands.figures import save_figure as save
from outlark.commands.summary_figure import summary_figure
from outlark.commands.tally import AnalysedRecording, Notes, Tally, rate_interval, share_interval, summarise
from outlark.errors import InputError

BERLIN = ZoneInfo("Europe/Berlin")


def at(recording="a", site="pond", began=None, seconds=1800.0, expansion=1.0):
    return AnalysedRecording(recording=recording, site=site, began=began, seconds=seconds, expansion=expansion)


def notes(labels, starts_s=None, verdict="known"):
    return Notes(labels, [verdict] * len(labels), [0.0] * len(labels) if starts_s is None else starts_s)


# --- intervals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_rates_that_make_the_count_just_unlikely(confidence):
    counts = np.array([0, 1, 2, 7, 50, 10_000])
    low, high = rate_interval(counts, 2.0, confidence)
    tail = (1 - confidence) / 2
    np.testing.assert_allclose(stats.poisson.cdf(counts, 2.0 * high), tail, rtol=1e-9)
    np.testing.assert_allclose(stats.poisson.sf(counts[1:] - 1, 2.0 * low[1:]), tail, rtol=1e-9)
    assert low[0] == 0.0


@pytest.mark.parametrize(("count", "total"), [(0, 1), (1, 1), (0, 40), (13, 40), (40, 40), (999, 1000)])
def test_shares_are_those_of_clopper_and_pearson(count, total):
    expected = stats.binomtest(count, total).proportion_ci(0.9, method="exact")
    low, high = share_interval(count, total, 0.9)
    np.testing.assert_allclose([low, high], expected, rtol=1e-9)


def test_nothing_to_divide_by():
    assert np.isnan([*rate_interval(3, 0.0), *share_interval(0, 0)]).all()


# --- hours of the day -----------------------------------------------------------------------------------------------


def by_seconds(began, seconds, zone=None):
    """The hours of a recording, second by second."""
    hours = defaultdict(float)
    for second in range(seconds):
        then = began + timedelta(seconds=second)
        local = then if zone is None else (began.astimezone(UTC) + timedelta(seconds=second)).astimezone(zone)
        hours[local.toordinal(), local.hour] += 1 / 3600
    return dict(hours)


@pytest.mark.parametrize(
    ("began", "seconds", "zone"),
    [
        (datetime(2023, 12, 31, 23, 59, 30), 7300, None),
        (datetime(2023, 5, 1, 4, 59, 59), 3602, None),
        (datetime(2023, 5, 1, 4, 50, tzinfo=timezone(timedelta(hours=5, minutes=45))), 3000, None),
        (datetime(2023, 3, 26, 0, 30, tzinfo=UTC), 7200, BERLIN),  # 2 to 3 in the morning does not exist
        (datetime(2023, 10, 28, 23, 30, tzinfo=UTC), 10800, BERLIN),  # and here it is there twice
        (datetime(2023, 10, 1, 22, 20, tzinfo=UTC), 4000, ZoneInfo("Australia/Lord_Howe")),  # half an hour
    ],
)
def test_effort_of_each_hour(began, seconds, zone):
    found = {tuple(hour): hours for hour, hours in at(began=began, seconds=seconds).hours(zone).items()}
    assert found == pytest.approx(by_seconds(began, seconds, zone))


def test_summer_time_ends():
    hours = at(began=datetime(2023, 10, 28, 23, 30, tzinfo=UTC), seconds=10800.0).hours(BERLIN)
    assert [(hour.hour, round(length, 9)) for hour, length in hours.items()] == [(1, 0.5), (2, 2.0), (3, 0.5)]


def test_a_clock_without_a_zone_is_not_moved():
    listened = at(began=datetime(2023, 7, 1, 12), seconds=60.0)
    assert [hour.hour for hour in listened.hours(BERLIN)] == [12]
    assert listened.hour_at(59.0, BERLIN).hour == 12


def test_bats_slowed_down_by_ten_were_listened_to_for_a_tenth():
    tally = Tally()
    tally.add(at(began=datetime(2023, 7, 1, 22, 59), seconds=1200.0, expansion=10.0), notes(["p", "p"], [599.0, 601.0]))
    found = summarise(tally, ["class", "hour"])
    np.testing.assert_allclose(found.hours, [1 / 60, 1 / 60])
    assert found.notes[:, 0].tolist() == [1, 1]


# --- counting -------------------------------------------------------------------------------------------------------


def season(rng, n=60):
    """Recordings of three sites, some without a known time, with all that was found in them."""
    made = []
    for i in range(n):
        began = datetime(2023, 5, 1) + timedelta(seconds=int(rng.integers(0, 5 * 86400)))
        seconds = float(rng.integers(1, 9000))
        m = int(rng.integers(0, 12)) * (i % 4 > 0)
        labels = rng.choice(["a", "b", "c"], m).tolist()
        verdicts = rng.choice(["known", "known", "ambiguous", "unknown", "silence"], m).tolist()
        labels = [None if v in ("unknown", "silence") else x for x, v in zip(labels, verdicts, strict=True)]
        where = at(f"r{i}", f"site {i % 3}", None if i % 10 == 9 else began, seconds)
        made.append((where, Notes(labels, verdicts, (rng.random(m) * seconds).tolist())))
    return made


def one_by_one(made, by):
    """The same counts, slowly."""
    hours, counts = defaultdict(float), defaultdict(lambda: defaultdict(int))
    units, with_note = defaultdict(set), defaultdict(set)
    for where, found in made:

        def key(offset_s, where=where):
            then = None if where.began is None else where.began + timedelta(seconds=offset_s)
            whole = {
                "site": where.site,
                "day": None if then is None else then.date(),
                "hour": None if then is None else then.hour,
            }
            return tuple(whole[name] for name in ("site", "day", "hour") if name in by), tuple(whole.values())

        edges = [0.0, where.seconds]
        if where.began is not None:
            midnight = datetime(2023, 5, 1)
            cuts = [(midnight + timedelta(hours=h) - where.began).total_seconds() for h in range(24 * 8)]
            edges = sorted({*edges, *(cut for cut in cuts if 0 < cut < where.seconds)})
        for begin, end in pairwise(edges):
            group, clock_hour = key((begin + end) / 2)
            hours[group] += (end - begin) / 3600
            units["recordings", group].add(where.recording)
            if where.began is not None:
                units["clock_hours", group].add(clock_hour)
        for label, verdict, start_s in zip(found.labels, found.verdicts, found.starts_s, strict=True):
            if verdict == "silence":
                continue
            group, clock_hour = key(start_s)
            name = "(unknown)" if verdict == "unknown" else label if "class" in by else "(known)"
            counts[group, name]["ambiguous" if verdict == "ambiguous" else "notes"] += 1
            if verdict != "ambiguous":
                with_note["recordings", group, name].add(where.recording)
                if where.began is not None:
                    with_note["clock_hours", group, name].add(clock_hour)
    return hours, counts, units, with_note


@pytest.mark.parametrize(
    "by",
    [(), ("class",), ("class", "site"), ("class", "day"), ("site", "hour"), ("class", "site", "day", "hour")],
    ids=str,
)
def test_counted_one_by_one(rng, by):
    made = season(rng)
    tally = Tally()
    for where, found in made:
        tally.add(where, found)
    hours, counts, units, with_note = one_by_one(made, by)
    found = list(summarise(tally, by).rows())
    classes = ["a", "b", "c", "(unknown)"] if "class" in by else ["(known)", "(unknown)"]
    assert len(found) == len(hours) * len(classes)
    for row in found:
        group = tuple(row[name] for name in ("site", "day", "hour") if name in by)
        name = row["class"]
        assert row["hours"] == pytest.approx(hours[group])
        assert row["notes"] == counts[group, name]["notes"]
        assert row["ambiguous"] == (None if name == "(unknown)" else counts[group, name]["ambiguous"])
        for unit in ("recordings", "clock_hours"):
            assert row[unit] == len(units[unit, group])
            assert row[f"{unit}_with"] == len(with_note[unit, group, name])
        assert row["per_hour"] == pytest.approx(row["notes"] / row["hours"])
    assert sum(row["hours"] for row in found) == pytest.approx(len(classes) * sum(w.seconds for w, _ in made) / 3600)


def test_recordings_without_notes_are_effort():
    tally = Tally()
    tally.add(at("a", began=datetime(2023, 5, 1, 4)), notes(["song"] * 6))
    tally.add(at("b", began=datetime(2023, 5, 2, 4)), notes([]))
    (row, _) = summarise(tally, ["class"]).rows()
    assert (row["hours"], row["per_hour"], row["recordings_with"], row["recordings"]) == (1.0, 6.0, 1, 2)
    days = list(summarise(tally, ["class", "day"]).rows())
    assert [(row["day"], row["notes"], row["hours"]) for row in days[::2]] == [
        (date(2023, 5, 1), 6, 0.5),
        (date(2023, 5, 2), 0, 0.5),
    ]


def test_time_unknown_has_a_row_of_its_own_and_counts_by_site():
    tally = Tally()
    tally.add(at("a"), notes(["song"] * 2))
    tally.add(at("b", began=datetime(2023, 5, 2, 4)), notes(["song"]))
    unknown, *_ = summarise(tally, ["class", "day", "hour"]).rows()
    assert (unknown["day"], unknown["hour"], unknown["notes"], unknown["clock_hours"]) == (None, None, 2, 0)
    assert unknown["clock_hours_share"] is None
    (of_site, _) = summarise(tally, ["class", "site"]).rows()
    assert (of_site["notes"], of_site["recordings"], of_site["clock_hours"]) == (3, 2, 1)


def test_what_was_not_written_is_blank_and_not_zero():
    tally = Tally()
    tally.add(at(began=datetime(2023, 5, 2, 4)), notes(["song"]))
    (row,) = summarise(tally, ["class"], verdicts=["known"]).rows()
    assert (row["class"], row["notes"], row["ambiguous"]) == ("song", 1, None)


def test_classes_that_are_asked_for():
    tally = Tally()
    tally.add(at(began=datetime(2023, 5, 2, 4)), notes(["song", "call"]))
    found = summarise(tally, ["class"], ["call", "absent"])
    assert (found.classes, found.notes.tolist()) == (("call", "absent", "(unknown)"), [[1, 0, 0]])


def test_a_class_with_the_name_of_none():
    with pytest.raises(InputError, match=r"a class is named \(unknown\).*; rename it"):
        Tally().add(at(), notes(["(unknown)"]))


# --- files and figures ----------------------------------------------------------------------------------------------


def test_the_same_rows_in_csv_and_parquet(rng, tmp_path):
    pandas = pytest.importorskip("pandas")
    tally = Tally()
    for where, found in season(rng):
        tally.add(where, found)
    summary = summarise(tally, ["class", "site", "day", "hour"])
    for name in ("s.csv", "s.parquet"):
        summary.write(tmp_path / name)
    csv, parquet = pandas.read_csv(tmp_path / "s.csv"), pandas.read_parquet(tmp_path / "s.parquet")
    assert list(csv.columns) == list(parquet.columns)
    assert set(csv["day"][parquet["day"].isna()]) == set(csv["hour"][parquet["day"].isna()]) == {"time unknown"}
    numbers = parquet.columns[4:]
    np.testing.assert_allclose(csv[numbers].astype(float), parquet[numbers].astype(float), atol=1e-6)
    assert csv["class"].tolist() == parquet["class"].tolist()


def test_another_ending(tmp_path):
    with pytest.raises(InputError, match=r"s.xlsx: a summary is written as .csv or .parquet"):
        summarise(Tally(), []).write(tmp_path / "s.xlsx")


@pytest.mark.parametrize("sites", [2, 20])
def test_figures_of_few_and_many_sites(rng, tmp_path, sites):
    tally = Tally()
    for i, (where, found) in enumerate(season(rng)):
        tally.add(at(where.recording, f"$site {i % sites}$", where.began, where.seconds), found)
    figure = summary_figure(tally)
    save(figure, tmp_path / "s.svg")
    drawn = Path(tmp_path / "s.svg").read_text()
    assert "<!-- $site 1$ " in drawn
    assert "<!-- hatched: not recorded; days and hours omit 6 recordings without a known start time -->" in drawn
    of_days = figure.subfigs[0].axes[1].collections[0].get_array()
    expected = summarise(tally, ["class", "day"])
    timed = expected.groups["day"] >= 0
    np.testing.assert_allclose(of_days, expected.rates[timed, :-1].T)


def test_a_figure_without_any_time():
    tally = Tally()
    tally.add(at(), notes(["song"]))
    assert [part.get_suptitle() for part in summary_figure(tally).subfigs] == [
        "Notes per hour by site, with 95 % Poisson intervals"
    ]


def test_a_figure_of_many_classes_says_what_it_omits():
    tally = Tally()
    tally.add(at(began=datetime(2023, 5, 2, 4)), notes([f"c{i}" for i in range(20) for _ in range(i + 1)]))
    figure = summary_figure(tally)
    assert figure.get_supxlabel().startswith("the 15 classes with most notes, of 20; ")
    assert [label.get_text() for label in figure.subfigs[0].axes[1].get_yticklabels()] == [
        f"c{i}" for i in range(5, 20)
    ]


def test_no_recordings_no_figure():
    with pytest.raises(InputError, match="there is no recording to plot"):
        summary_figure(Tally())
