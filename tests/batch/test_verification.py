"""`outlark verify`: every file of results is there and what the run wrote, or is named."""

import json
import shutil

import pytest
from click.testing import CliRunner

from outlark.batch.journal import COMBINED_DIFFERS, FILE_CHANGED, FILE_MISSING, verify
from outlark.cli.main import main
from outlark.errors import InputError


@pytest.fixture(scope="module")
def once(model, recordings, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    args = ["detect", model, recordings, "-o", out, "--format", "csv,raven", "--keep-scores", "-j", 1, "--quiet"]
    assert CliRunner().invoke(main, list(map(str, args))).exit_code == 0
    return out


@pytest.fixture
def out(once, tmp_path):
    return shutil.copytree(once, tmp_path / "out")


def ran(out, code):
    done = CliRunner().invoke(main, ["verify", str(out), "--json"])
    assert done.exit_code == code, done.stderr
    return json.loads(done.stdout), done.stderr


def test_all_is_there(out):
    found, said = ran(out, 0)
    assert (found["recordings"], found["files"], found["wrong"]) == (12, 36, [])
    assert f"36 files of 12 recordings in {out}: all complete and unchanged" in said


def test_what_is_missing_or_changed_is_named(out):
    tables = sorted(out.rglob("*.outlark.csv"))
    tables[0].unlink()
    tables[1].write_bytes(tables[1].read_bytes() + b"\n")
    scores = sorted(out.rglob("*.scores"))[2]
    blob = bytearray(scores.read_bytes())
    blob[-1] ^= 1
    scores.write_bytes(blob)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    found, said = ran(out, 3)
    told = {wrong["file"]: wrong["message"] for wrong in found["wrong"]}
    names = [path.relative_to(out).as_posix() for path in (tables[0], tables[1], scores)]
    assert told == dict(zip(names, (FILE_MISSING, FILE_CHANGED, FILE_CHANGED), strict=True))
    assert all(f"{name} {message}" in said for name, message in told.items())
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_the_last_line_of_a_recording_counts_and_a_torn_one_is_left_alone(out):
    journal = out / ".outlark/journal.jsonl"
    first = json.loads(journal.read_text().splitlines()[0])
    old = {**first, "outputs": dict.fromkeys(first["outputs"], "0" * 64)}
    blob = (json.dumps(old) + "\n").encode() + journal.read_bytes() + b'{"recording": "to'
    journal.write_bytes(blob)
    assert verify(out).wrong == []
    assert journal.read_bytes() == blob


def test_folders_that_cannot_be_verified(tmp_path):
    with pytest.raises(InputError, match=r"has no .outlark/journal.jsonl; give the output folder of outlark detect"):
        verify(tmp_path)


def advised(out):
    return CliRunner().invoke(main, ["verify", str(out)]).stderr


def test_the_advice_loses_no_edits(out):
    first, second, *_ = sorted(out.rglob("*.outlark.csv"))
    first.write_bytes(first.read_bytes() + b"\n")
    assert "same options" not in advised(out)
    second.unlink()
    assert "same options" in advised(out)
    second.touch()
    first.with_name(first.name.replace(".outlark.csv", ".scores")).unlink()  # detecting again writes both anew
    said = advised(out)
    assert ".edited" in said


def test_the_combined_table_is_checked_against_the_others(out):
    combined = out / "combined.csv"
    whole = combined.read_bytes()
    for content, message in ((whole + b"mine\n", FILE_CHANGED), (None, FILE_MISSING)):
        combined.unlink() if content is None else combined.write_bytes(content)
        (wrong,) = ran(out, 3)[0]["wrong"]
        assert (wrong["file"], wrong["message"]) == ("combined.csv", message)
    combined.write_bytes(whole)
    journal = out / ".outlark/journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[1:]))  # a recording that it does not have
    (wrong,) = ran(out, 3)[0]["wrong"]
    assert (wrong["file"], wrong["message"]) == ("combined.csv", COMBINED_DIFFERS)
    assert "run 'outlark detect' with the same options to write it anew" in advised(out)
