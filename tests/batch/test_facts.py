"""What is said of a recording as a whole."""

import pytest
import soundfile

from outlark.audio.recorder_metadata import Facts
from outlark.audio.recording import Recording
from outlark.data.synthetic import SAMPLE_RATE
from outlark.errors import InputError
from tests.audio.test_recorder_metadata import sound
from tests.recordings_on_disk import song


def test_there_and_back():
    facts = Facts(began="2026-05-01T04:30:00+02:00", source="guano", expansion=10.0, partial="cut", remarks=("odd",),
                  quality=("silent",), counts=False)  # fmt: skip
    assert Facts.of_dict(facts.as_dict()) == facts
    assert Facts().as_dict() == {}
    assert Facts.of_dict({}) == Facts()
    assert facts.all_remarks == ("partial: cut", "odd", "silent")


@pytest.mark.parametrize(
    "kept",
    [{"began": "soon"}, {"began": 5}, {"other": 1}, {"began": "2026-05-01T04:30:00", "expansion": 0}, {"remarks": [1]}],
)
def test_what_was_never_said(kept):
    with pytest.raises(InputError, match=r"the description of the recording is damaged .*; keep the scores again"):
        Facts.of_dict(kept)


def test_clocks_that_differ_are_told(tmp_path):
    path = tmp_path / "SITE_20231024_120000.wav"
    with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1) as file:
        file.comment = "Recorded at 12:34:56 24/10/2023 (UTC) by AudioMoth 24F3190361DA539A"
        file.write(song(0))
    facts = Recording(path).facts
    assert facts.began == "2023-10-24T12:34:56+00:00"
    assert facts.site is None
    assert facts.all_remarks[0].startswith("the file name says 2023-10-24 12:00:00, 0:34:56 earlier than the comment")


def test_the_journal_and_the_tables_tell_when_and_where(tmp_path):
    path = sound(tmp_path / "a.wav", guano="Timestamp: 2023-10-24T12:34:56+02:00\nTE: 10\nSite: pond")
    facts = Recording(path).facts
    told = {"began": "2023-10-24T12:34:56+02:00", "expansion": 10.0, "site": "pond"}
    usual = {"partial": None, "remarks": [], "quality": [], "counts": True}
    assert facts.for_journal() == {**told, **usual}
    assert facts.as_dict() == {**told, "source": "guano"}
    assert Facts.of_dict(facts.as_dict()) == facts
    assert Facts().for_journal() == {"began": None, "expansion": 1.0, "site": None, **usual}
