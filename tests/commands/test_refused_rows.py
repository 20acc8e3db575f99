"""Rows that a person wrote are never dropped in silence: `train` and `evaluate` name each of them and end with 3."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark.annotations import Annotation, read_annotations, write_annotations
from outlark.cli.main import main
from outlark.commands.evaluate import match_tables
from outlark.commands.train.examples import find_examples, told_apart, with_negatives
from outlark.commands.train.retraining import reviewed
from outlark.data.synthetic import SAMPLE_RATE

FOUND = [
    Annotation(
        start_s=start_s,
        end_s=start_s + 0.1,
        label="buzz",
        recording="a.wav",
        verdict="known",
        score=1.0,
        reason="1 ≥ 0",
    )
    for start_s in (0.1, 0.3, 0.5)
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    soundfile.write(tmp_path / "a.wav", np.random.default_rng(0).normal(size=8000), 8000)
    write_annotations(tmp_path / "found.csv", FOUND, format="csv")
    return tmp_path


def corrected(here: Path, *rows: Annotation, format: str = "csv") -> Path:
    path = here / ("a.txt" if format == "audacity" else "corrected.csv")
    write_annotations(path, [*FOUND, *rows], format=format)
    return path


def added(start_s: float, end_s: float, label: str | None = None, **more: object) -> Annotation:
    return Annotation(start_s=start_s, end_s=end_s, label=label, recording="a.wav", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["csv", "raven", "birdnet", "audacity"])
def test_an_added_row_without_a_label_is_named(here: Path, format: str) -> None:
    path = corrected(here, added(0.7, 0.8), format=format)
    found = find_examples([path], audio=[here], any_verdict=True, format=format)
    assert len(found.notes) == len(FOUND)
    ((where, (said,)),) = found.refused.items()
    line = read_annotations(path, format=format).annotations[-1].line
    assert where == path
    assert said.startswith(f"{path}, line {line}: ")
    assert "no label" in said
    assert "delete the row" in said


def test_a_label_that_was_deleted_is_named_and_is_no_rejection(here: Path) -> None:
    """The person may have meant to write another one; rows that are gone are still rejections."""
    path = here / "corrected" / "found.csv"
    path.parent.mkdir()
    write_annotations(path, [replace(FOUND[0], label=None), FOUND[1]], format="csv")
    (here / "found").mkdir()
    write_annotations(here / "found" / "found.csv", FOUND, format="csv")
    new = reviewed(["buzz"], [path.parent], found_in=[here / "found"], audio=[here])
    assert [note.annotation.start_s for note in new.negatives if note.annotation] == [0.5]
    assert "line 2: 0.100 to 0.200 s has no label" in new.refused[path][0]


def test_a_point_is_named(here: Path) -> None:
    path = corrected(here, added(0.7, 0.7, "buzz"))
    (said,) = find_examples([path], any_verdict=True).refused[path]
    assert "line 5: 'buzz' at 0.700 s has no duration; mark the note from its start to its end" in said


def test_a_file_without_any_label_is_named_once(here: Path) -> None:
    table = here / "b.csv"
    table.write_text("start_s,end_s,recording\n0.1,0.2,a.wav\n0.3,0.4,a.wav\n")
    (said,) = find_examples([here / "found.csv", table], any_verdict=True).refused[table]
    assert said.startswith(f"{table}: none of its 2 rows has a label")
    assert "--label-column" in said


def test_what_a_model_left_unlabelled_is_only_counted(here: Path) -> None:
    rows = [added(0.7, 0.8, verdict=verdict, score=0.1, reason="0.1 < 1") for verdict in ("unknown", "silence")]
    found = find_examples([corrected(here, *rows)], any_verdict=True)
    assert not found.refused
    assert "2 annotations skipped: no label" in found.remarks


def test_what_other_programs_left_unlabelled_is_only_counted(here: Path) -> None:
    table = here / "b.kaleidoscope.csv"
    table.write_text("INDIR,FOLDER,IN FILE,OFFSET,DURATION,MANUAL ID\n,,a.wav,0.1,0.1,buzz\n,,a.wav,0.3,0.1,\n")
    found = find_examples([table], any_verdict=True)
    assert (len(found.notes), found.refused) == (1, {})


def test_a_label_over_an_unknown_sound_is_an_example(here: Path) -> None:
    """Also without --from: people who label a row leave its verdict as it is."""
    path = corrected(here, added(0.7, 0.8, "trill", verdict="unknown", score=0.1, reason="0.1 < 1"))
    assert told_apart(find_examples([path], any_verdict=True)).labels == ["buzz", "trill"]


def test_negatives_of_no_class_are_named(here: Path) -> None:
    path = here / "not.csv"
    write_annotations(path, [added(0.7, 0.8, "buzz"), added(0.8, 0.9, "buz")], format="csv")
    examples = told_apart(find_examples([here / "found.csv"], any_verdict=True))
    found = with_negatives(examples, find_examples([path], any_verdict=True), {"buzz"})
    (said,) = found.refused[path]
    assert said == f"{path}, line 3: 'buz' at 0.800 s is a negative of no class; the classes are buzz"


def evaluated(here: Path, truth: Path) -> tuple[int, dict[str, object]]:
    done = CliRunner().invoke(main, ["evaluate", str(here / "found.csv"), str(truth), "--json", "--corrected"])
    return done.exit_code, json.loads(done.stdout)


def test_a_point_of_the_truth_is_named(here: Path) -> None:
    path = corrected(here, added(0.7, 0.7, "buzz"))
    code, told = evaluated(here, path)
    assert code == 3
    assert told["refused"] == find_examples([path]).refused[path]
    write_annotations(here / "found.csv", [*FOUND, added(0.7, 0.7, "buzz")], format="csv")  # of a program: not refused
    assert len(match_tables(here / "found.csv", path, corrected=True).refused) == 1


def test_a_row_of_the_truth_without_a_label_is_named(here: Path) -> None:
    """It counts: detections there are neither right nor wrong."""
    code, told = evaluated(here, corrected(here, added(0.7, 0.8)))
    assert code == 0
    assert any("corrected.csv, line 5: 0.700 to 0.800 s has no label" in remark for remark in told["remarks"])  # type: ignore[attr-defined]


def test_a_label_over_an_unknown_sound_is_truth(here: Path) -> None:
    path = corrected(here, added(0.7, 0.8, "buzz", verdict="unknown", score=0.1, reason="0.1 < 1"))
    code, told = evaluated(here, path)
    assert (code, told["measures"]["notes"]["buzz"]) == (0, 4)  # type: ignore[index]


def test_train_ends_with_three(tmp_path: Path) -> None:
    rate = SAMPLE_RATE
    soundfile.write(tmp_path / "a.wav", np.random.default_rng(0).normal(size=2 * rate), rate)
    rows = [Annotation(start_s=at, end_s=at + 0.1, label="buzz") for at in (0.2, 0.6, 1.0)]
    write_annotations(tmp_path / "a.csv", [*rows, Annotation(start_s=1.5, end_s=1.6)], format="csv")
    given = ["train", str(tmp_path / "a.csv"), "-o", str(tmp_path / "m.outlark"), "--no-check"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 3, done.stderr
    assert "a.csv, line 5: 1.500 to 1.600 s has no label; write its class there, or delete the row" in done.stderr
