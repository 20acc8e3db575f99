"""What a journal says of recordings: what counts, and what does not."""

import json

import pytest

from outlark.annotations import Annotation, write_annotations
from outlark.commands.summary import count, overlapping, read_results
from outlark.errors import InputError


def line(recording, **more):
    """A line about a recording that is done."""
    whole = {
        "recording": recording,
        "state": "done",
        "path": f"/disk/in/{recording}",
        "file": {},
        "formats": ["csv"],
        "scores": False,
        "identity": {"verdicts": ["known", "ambiguous", "unknown"], "model_sha256": "m"},
        "outputs": {f"{recording}.outlark.csv": ""},
        "segments": {},
        "seconds": 60.0,
        "partial": None,
        "remarks": [],
        "began": "2024-05-01T05:00:00",
        "expansion": 1.0,
        "site": None,
    }
    return {key: value for key, value in (whole | more).items() if value != "absent"}


def journal(folder, *lines, torn=""):
    (folder / ".outlark").mkdir()
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (folder / ".outlark/journal.jsonl").write_text(text + torn)
    return folder


def test_the_last_line_counts(tmp_path):
    failed = {"recording": "a/1.wav", "state": "failed", "message": "gone"}
    part = {"recording": "a/2.wav", "state": "part", "part": 0}
    out = journal(
        tmp_path, line("a/1.wav"), failed, {**failed, "recording": "a/2.wav"}, line("a/2.wav"), part, torn='{"rec'
    )
    found = read_results(out)
    assert [one.recording for one in found.analysed] == ["a/2.wav"]
    assert [(one.where, one.message) for one in found.failed] == [("a/1.wav", "gone")]


def test_recordings_with_little_to_hear_do_not_count(tmp_path):
    odd = {"quality": ["it is dead"], "counts": False}
    heard = {"quality": ["9 % of it is clipped"], "counts": True}
    found = read_results(journal(tmp_path, line("a/1.wav", **odd), line("a/2.wav", **heard), line("a/3.wav")))
    assert [one.recording for one in found.analysed] == ["a/2.wav", "a/3.wav"]
    assert [(one.where, one.message) for one in found.spoilt] == [("a/1.wav", "it is dead")]


def test_the_site_of_the_recorder_goes_before_that_of_the_folder(tmp_path):
    out = journal(tmp_path, line("a/1.wav", site="Upper pond"), line("a/2.wav"))
    assert [one.site for one in read_results(out).analysed] == ["Upper pond", "a"]
    assert [one.site for one in read_results(out, "folder").analysed] == ["a", "a"]


@pytest.mark.parametrize("more", [{"began": "soon"}, {"seconds": None}, {"expansion": "slow"}, {"began": 5}])
def test_a_line_that_no_run_writes(tmp_path, more):
    with pytest.raises(InputError, match=r"a/1.wav: its line in the journal is damaged"):
        read_results(journal(tmp_path, line("a/1.wav", **more)))


def test_nothing_is_done(tmp_path):
    out = journal(tmp_path, {"recording": "a.wav", "state": "failed", "message": "gone"})
    with pytest.raises(InputError, match=r"no recording is done, so there is nothing to count"):
        read_results(out)


def test_the_verdicts_that_all_tables_hold(tmp_path):
    identity = {"verdicts": ["known", "unknown"], "model_sha256": "n"}
    found = read_results(journal(tmp_path, line("a/1.wav"), line("a/2.wav", identity=identity)))
    assert (found.verdicts, found.models) == (("known", "unknown"), ("m", "n"))


def test_no_format_that_holds_labels(tmp_path):
    out = journal(tmp_path, line("1.wav", outputs={"1.wav.dcase.csv": ""}), line("2.wav"))
    write_annotations(out / "2.wav.outlark.csv", [Annotation(start_s=1.0, end_s=2.0, label="song")], format="csv")
    tally, missing = count(read_results(out))
    assert tally.recordings == ["2.wav"]
    assert tally.found()["known"].tolist() == [1]  # with a label and without a verdict
    assert [one.where for one in missing] == ["1.wav"]
    assert "it has no annotation file in the format csv or jsonl or parquet" in missing[0].message


def test_time_that_recordings_of_a_site_share_counts_once(tmp_path):
    """The same night twice on the disk, and a recorder whose files overlap by half."""
    out = journal(
        tmp_path,
        line("pond/1.wav"),
        line("pond/copy of 1.wav"),
        line("pond/2.wav", began="2024-05-01T05:00:30"),
        line("ridge/1.wav"),
    )
    notes = [Annotation(start_s=t, end_s=t + 1, label="a", verdict="known") for t in (10.0, 40.0)]
    for name in ("pond/1.wav", "pond/copy of 1.wav", "pond/2.wav", "ridge/1.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_annotations(tmp_path / f"{name}.outlark.csv", notes, format="csv")
    results = read_results(out)
    assert overlapping(results) == {"pond/copy of 1.wav": 60.0, "pond/2.wav": 30.0}
    tally, missing = count(results)
    assert missing == []
    assert tally.effort()["hours"].sum() * 3600 == pytest.approx(60 + 30 + 60)
    assert tally.found()["known"].sum() == 2 + 1 + 2
    (tmp_path / "pond/1.wav.outlark.csv").unlink()  # then its copy counts
    tally, missing = count(results)
    assert [one.where for one in missing] == ["pond/1.wav"]
    assert tally.found()["known"].sum() == 2 + 1 + 2


def test_files_that_follow_each_other_do_not_overlap(tmp_path):
    lines = [line(f"pond/{i}.wav", began=f"2024-05-01T05:{i:02}:00", seconds=61.0) for i in range(3)]
    assert overlapping(read_results(journal(tmp_path, *lines))) == {}
