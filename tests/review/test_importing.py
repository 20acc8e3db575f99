"""Annotation files go where they say, keep what they hold, and count once."""

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlark.review.opening import open_project
from tests.review.conftest import Client
from tests.review.test_identity import ids, labelled, sound

#: Recorders at two sites that start at the same times.
SITES = ("A/20240501_040000.flac", "B/20240501_040000.flac", "B/20240501_050000.flac")


@pytest.fixture
def opens(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    every = []

    def opened(*names: str) -> Client:
        for seed, name in enumerate(names):
            sound(tmp_path / "season" / name, seed)
        every.append(open_project([tmp_path / "season"]))
        return Client(every[-1])

    yield opened
    for one in every:
        one.project.close()


def taken(client: Client, table: str, name: str = "table.csv", into: str | None = None) -> dict:
    number = ids(client)[into] if into else 1
    answer = client.post(f"/api/recordings/{number}/import", params={"name": name}, content=table.encode())
    assert answer.status_code == 201, answer.text
    return answer.json()


def counts(client: Client) -> dict[str, int]:
    return {
        name: len(client.get(f"/api/recordings/{number}/annotations").json()) for name, number in ids(client).items()
    }


def csv(*names: str) -> str:
    """A table with a note for each of these recordings, at different times."""
    rows = [f"{name},{0.1 * i:.1f},{0.1 * i + 0.05:.2f},song\n" for i, name in enumerate(names, start=1)]
    return "".join(["recording,start_s,end_s,label\n", *rows])


def raven(*rows: tuple[float, float], more: dict[str, str] | None = None) -> str:
    more = more or {}
    head = ["Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)", *more]
    lines = [
        [str(i), "Spectrogram 1", "1", str(t0), str(t1), "1500.5", "3000.0", *more.values(), "song"]
        for i, (t0, t1) in enumerate(rows, start=1)
    ]
    return "".join("\t".join(line) + "\n" for line in [[*head, "Annotation"], *lines])


def test_equal_names_at_two_sites_go_where_the_folder_says(opens):
    with opens(*SITES) as client:
        said = taken(client, csv(SITES[0], SITES[1], SITES[1], SITES[2], "C/20240501_040000.flac"))
        assert counts(client) == dict(zip(SITES, (1, 2, 1), strict=True))
        assert said["added"] == 4
        assert len(said["refused"]) == 1
        assert "C/20240501_040000.flac" in said["refused"][0]


@pytest.mark.parametrize(
    "name",
    [
        r"C:\recordings 2024\A\20240501_040000.flac",
        r"\\server\share\a\20240501_040000.FLAC",
        "/mnt/disk/season/A/20240501_040000.flac",
        "A/20240501_040000.wav",
        "A/20240501_040000",
    ],
)
def test_paths_of_other_computers_and_other_endings(opens, name):
    with opens(*SITES) as client:
        assert taken(client, csv(name), into=SITES[1])["refused"] == []
        assert counts(client)[SITES[0]] == 1


@pytest.mark.parametrize(
    ("names", "added", "told"),
    [
        (("20240501_040000.flac", "20240501_050000.flac"), 1, ("1 row left out", SITES[0], SITES[1])),
        (("20240601_000000.flac", "20240601_000000.flac"), 0, ("2 rows left out", "20240601_000000.flac")),
    ],
    ids=["several", "none"],
)
def test_a_name_that_fits_several_recordings_or_none_is_refused_and_told(opens, names, added, told):
    with opens(*SITES) as client:
        said = taken(client, csv(*names))
        assert (said["added"], sum(counts(client).values())) == (added, added)
        (refused,) = said["refused"]
        assert all(word in refused for word in told)


def test_the_only_recording_of_a_name_is_taken_wherever_it_was(opens):
    """And it is said, because the folders do not agree."""
    with opens("night/x.wav") as client:
        said = taken(client, csv(r"D:\backup\x.wav"))
        assert (said["added"], said["refused"]) == (1, [])
        assert "only recording" in said["remarks"][0]


def test_names_in_another_normal_form_are_found(opens):
    name = "Dösen/Frühling é.wav"
    with opens(unicodedata.normalize("NFC", name), "Dösen/other.wav") as client:
        assert taken(client, csv(unicodedata.normalize("NFD", name)))["refused"] == []


@pytest.mark.parametrize(
    ("name", "target"), [("c d.Table.1.selections.txt", "sub/c d.wav"), ("C D.txt", "sub/c d.wav"), ("my.txt", "a.wav")]
)
def test_a_table_without_names_goes_to_the_recording_that_it_is_named_after_or_the_open_one(opens, name, target):
    with opens("a.wav", "sub/c d.wav") as client:
        said = taken(client, raven((0.1, 0.2)), name, into="a.wav")
        assert counts(client) == {"a.wav": 0, "sub/c d.wav": 0, target: 1}
        assert target in said["remarks"][0]


def test_a_table_named_after_two_recordings_goes_to_the_one_that_is_open_or_nowhere(opens):
    with opens(*SITES) as client:
        name = "20240501_040000.Table.1.selections.txt"
        assert taken(client, raven((0.1, 0.2)), name, into=SITES[1])["added"] == 1
        said = taken(client, raven((0.3, 0.4)), name, into=SITES[2])
        assert (said["added"], len(said["refused"])) == (0, 1)
        assert counts(client) == dict(zip(SITES, (0, 1, 0), strict=True))


def test_frequency_limits_are_kept(opens, tmp_path):
    with opens("a.wav") as client:
        taken(client, raven((0.1, 0.2)))
        (row,) = client.get("/api/recordings/1/annotations").json()
        assert (row["low_hz"], row["high_hz"]) == (1500.5, 3000.0)
        answer = client.get("/api/export", params={"format": "raven", "scope": "reviewed", "recording": 1})
        assert b"1500.5" in answer.content


def test_importing_twice_doubles_nothing(opens):
    table = raven(*((0.01 * i, 0.01 * i + 0.005) for i in range(1, 119)))
    with opens("a.wav") as client:
        assert (taken(client, table)["added"], counts(client)["a.wav"]) == (118, 118)
        again = taken(client, table)
        assert (again["added"], again["there"], counts(client)["a.wav"]) == (0, 118, 118)
        assert "118" in again["remarks"][0]
        assert client.post("/api/undo").json()["kind"].startswith("import")
        assert counts(client)["a.wav"] == 0, "an import that added nothing is no step to undo"
        labelled(client, 1, "song", 800)  # 0.1 to 0.2 s
        rounded = taken(client, raven((0.1004, 0.1996), (0.5, 0.6)))
        assert (rounded["added"], rounded["there"]) == (1, 1), "programs round times"


def test_what_cannot_be_an_annotation_is_told(opens):
    with opens("a.wav") as client:
        table = "recording,start_s,end_s,label\na.wav,0.1,0.1,song\na.wav,50,51,song\na.wav,0.5,0.6,song\n"
        table += f"a.wav,0.7,0.8,{'x' * 80}\n"
        said = taken(client, table)
        assert said["added"] == 1
        assert len(said["refused"]) == 3


@pytest.mark.parametrize("name", ["long song", "long  song"])
def test_labels_that_differ_in_spaces_only_are_one_class(opens, name):
    """Models and their results may hold a name with two spaces."""
    with opens("a.wav") as client:
        with client.opened.project.store.action("classes of the results") as action:
            action.insert("class", name=name, colour=0)
        table = "recording,start_s,end_s,label\na.wav,0.1,0.2,long  song\na.wav,0.3,0.4,long song\n"
        assert [taken(client, table)["added"] for _ in range(2)] == [2, 0]
        assert [c["name"] for c in client.get("/api/project").json()["classes"]] == [name]


def test_what_was_exported_comes_back_to_its_recordings(opens, tmp_path):
    """As one table over both sites, and as the files of each, in a project that has moved."""
    with opens(*SITES) as client:
        taken(client, csv(*SITES))
        for number in ids(client).values():
            for format in ("raven", "audacity", "csv", "kaleidoscope"):
                params = {"format": format, "scope": "reviewed", "recording": number}
                answer = client.get("/api/export", params=params)
                name = answer.headers["content-disposition"].split("''")[1]
                again = client.post(
                    f"/api/recordings/{number % 3 + 1}/import", params={"name": name}, content=answer.content
                ).json()
                assert (again["added"], again["there"], again["refused"]) == (0, 1, []), (format, name)
