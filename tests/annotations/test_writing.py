"""Written files: whole or not at all, with what made them inside or beside."""

import os
import weakref

import pytest

from outlark.annotations import FORMATS, About, Annotation, own_formats, read_annotations, write_annotations
from outlark.errors import AnnotationError, InputError
from outlark.segments import Segment
from outlark.version import __version__
from tests.annotations.made_marks import ABOUT, ANNOTATIONS

WRITING = [name for name, format in FORMATS.items() if format.writes]
SUFFIXES = {
    "raven": ".Table.1.selections.txt", "audacity": ".labels.txt", "kaleidoscope": ".kaleidoscope.csv",
    "birdnet": ".birdnet.csv", "dcase": ".dcase.csv", "csv": ".outlark.csv", "jsonl": ".jsonl", "parquet": ".parquet",
    "aoef": ".aoef.json",
}  # fmt: skip
NEEDS = {"aoef": "soundevent", "parquet": "pyarrow"}


def need(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])


def test_formats_and_suffixes_do_not_change():
    assert {name: FORMATS[name].suffix for name in WRITING} == SUFFIXES
    assert list(FORMATS)[: len(SUFFIXES)] == list(SUFFIXES)
    assert all(format.what and format.name == name for name, format in FORMATS.items())


@pytest.mark.parametrize("name", WRITING)
def test_a_table_without_marks_tells_it_too(name, tmp_path):
    need(name)
    path = tmp_path / f"a{FORMATS[name].suffix}"
    write_annotations(path, [], format=name, about=ABOUT)
    found = read_annotations(path)
    assert (found.format, found.annotations, found.about) == (name, (), ABOUT.as_dict())


def test_without_a_word_the_version_is_told(tmp_path):
    write_annotations(tmp_path / "a.jsonl", iter(ANNOTATIONS), format="jsonl")
    assert read_annotations(tmp_path / "a.jsonl").about["version"] == __version__


def test_no_side_file_of_an_earlier_table_stays(tmp_path):
    path = tmp_path / "a.csv"
    write_annotations(path, [], format="csv", about=About(version="0.0.1"))
    assert (tmp_path / "a.csv.about.json").exists()
    write_annotations(path, ANNOTATIONS, format="csv", about=ABOUT)
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_side_file_that_cannot_be_read_is_remarked(tmp_path):
    path = tmp_path / "a.labels.txt"
    write_annotations(path, ANNOTATIONS, format="audacity")
    (tmp_path / "a.labels.txt.about.json").write_text("{")
    found = read_annotations(path)
    assert found.about == {}
    assert "a.labels.txt.about.json beside it cannot be read" in found.remarks[0]


def test_a_name_that_is_no_unicode_does_not_stop_the_table(tmp_path):
    odd = os.fsdecode(b"caf\xe9.wav")
    annotations = [Annotation(start_s=0, end_s=1, label="a", verdict="known", recording=odd, sample_rate=8000)]
    for name in WRITING:
        need(name)
        write_annotations(tmp_path / "a.x", annotations, format=name)
        (annotation,) = read_annotations(tmp_path / "a.x", format=name).annotations
        expected = {"jsonl": odd, "audacity": None}.get(name, r"caf\udce9.wav")
        assert annotation.recording == expected


def test_colliding_columns_of_others_are_renamed(tmp_path):
    annotation = Annotation(start_s=0, end_s=1, label="a", more={"Label": "x", "View": "y", "schema": "z"})
    write_annotations(tmp_path / "a.csv", [annotation], format="csv")
    expected = {"Label (more)": "x", "View": "y", "schema (more)": "z"}
    assert read_annotations(tmp_path / "a.csv").annotations[0].more == expected
    write_annotations(tmp_path / "a.txt", [annotation], format="raven")
    (again,) = read_annotations(tmp_path / "a.txt").annotations
    assert (again.label, again.more) == ("a", {"Label": "x", "View (more)": "y", "schema": "z"})


def test_samples_at_384_khz_are_told_apart_after_a_day(tmp_path):
    rate = 384000
    annotations = [
        Annotation(start_s=n / rate, end_s=(n + 1) / rate, label="a", recording="a.wav", sample_rate=rate)
        for n in range(86400 * rate, 86400 * rate + 50)
    ]
    for name in WRITING:
        need(name)
        write_annotations(tmp_path / "a.x", annotations, format=name)
        back = [annotation.segment(rate) for annotation in read_annotations(tmp_path / "a.x", format=name).annotations]
        assert [(s.start, s.end) for s in back] == [(s.start, s.end) for s in (m.segment(rate) for m in annotations)]


# What cannot be written.


def test_errors_in_words(tmp_path):
    with pytest.raises(AnnotationError, match=r"format='textgrid' is only read; write one of \['raven'"):
        write_annotations(tmp_path / "a", ANNOTATIONS, format="textgrid")
    with pytest.raises(AnnotationError, match=r"format='ravn' is not known; choose one of"):
        write_annotations(tmp_path / "a", ANNOTATIONS, format="ravn")
    segment = Segment(start=0, end=1, sample_rate=8000)
    with pytest.raises(InputError, match=r"Segment.* is not an Annotation; use Annotation.from_segment"):
        write_annotations(tmp_path / "a", [segment], format="csv")
    with pytest.raises(InputError, match=r"settings.tau is nan, which JSON does not have"):
        write_annotations(
            tmp_path / "a", ANNOTATIONS, format="csv", about=About(version="1", settings={"tau": float("nan")})
        )
    assert os.listdir(tmp_path) == []


def test_no_folder(tmp_path):
    with pytest.raises(AnnotationError, match=r"cannot be written: .*none does not exist; check the name"):
        write_annotations(tmp_path / "none" / "a.csv", ANNOTATIONS, format="csv")
    with pytest.raises(AnnotationError, match=r"cannot be written \(File name too long\); give"):
        write_annotations(tmp_path / ("a" * 300), ANNOTATIONS, format="csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(
        AnnotationError, match=r"folder cannot be written \(it is a folder, not a file\); give the name of a file"
    ):
        write_annotations(tmp_path / "folder", ANNOTATIONS, format="csv")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "real" / "a.csv")
    write_annotations(tmp_path / "link.csv", ANNOTATIONS, format="csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len(read_annotations(tmp_path / "real" / "a.csv").annotations) == len(ANNOTATIONS)


class Counted:
    """A collection that makes its annotations anew in each pass, and knows how many of them are alive at once."""

    def __init__(self, n):
        self.n, self.most = n, 0
        self._alive = weakref.WeakSet()

    def __len__(self):
        return self.n

    def __contains__(self, annotation):
        return False

    def __iter__(self):
        for i in range(self.n):
            annotation = Annotation(start_s=i, end_s=i + 0.5, label="a", recording="a.wav", score=1.0, sample_rate=8000)
            self._alive.add(annotation)
            self.most = max(self.most, len(self._alive))
            yield annotation


@pytest.mark.parametrize("format", [name for name in WRITING if name != "aoef"])
def test_marks_are_written_one_after_the_other(tmp_path, format, monkeypatch):
    need(format)
    monkeypatch.setattr(own_formats, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(Annotation, "__hash__", object.__hash__)
    many = Counted(450)
    write_annotations(tmp_path / "a", many, format=format)
    assert many.most <= (201 if format == "parquet" else 3)
    write_annotations(tmp_path / "b", list(many), format=format)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    if format == "parquet":
        found = read_annotations(tmp_path / "a", format=format).annotations
        assert [one.start_s for one in found] == list(range(450))
