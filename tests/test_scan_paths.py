"""The fast scan gives the segments of the slow one on real recordings, where these are at hand."""

import pytest
from real_note_tasks import data_folder
from scan_paths import TOLERANCE, compared


@pytest.mark.parametrize(
    ("task", "n_examples", "n_recordings"),
    [
        ("bengalese-finch-syllables", 5, 2),
        ("canary-syllables", 2, 1),
        ("field-recordings-small", 5, None),
        ("finch-segmentation", 5, None),
        ("spoken-digits", 5, None),
    ],
)
def test_segments_are_those_of_spans_that_are_described(task, n_examples, n_recordings):
    try:
        data_folder()
    except SystemExit as error:
        pytest.skip(str(error))
    found = compared(task, 0, n_examples, n_recordings)
    assert found.segments > 20
    assert found.differing == 0
    assert 0.0 < found.largest <= TOLERANCE  # two ways: not the same to the last bit
