"""Names that mean the same recording."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlark.audio.sound_files import full_names, pair_names
from outlark.errors import AnnotationError


@pytest.mark.parametrize(
    ("names", "others", "pairs"),
    [
        (["a"], ["a.wav"], {"a": "a.wav"}),
        (["A.WAV"], ["site/a.wav"], {"A.WAV": "site/a.wav"}),
        ([r"D:\x\a.wav"], ["y/a.wav"], {r"D:\x\a.wav": "y/a.wav"}),
        (["a.wav", "a.flac"], ["a.flac", "a.wav"], {"a.wav": "a.wav", "a.flac": "a.flac"}),
        (["a.wav"], ["a.flac"], {"a.wav": "a.flac"}),
        (["x/1.wav", "y/1.wav"], ["y/1.wav", "z/1.wav"], {"x/1.wav": None, "y/1.wav": "y/1.wav"}),
        (["x/1.wav"], ["x/1.wav", "y/1.wav", "1.wav"], {"x/1.wav": "x/1.wav"}),
        (["a.1"], ["a.2", "a"], {"a.1": None}),
    ],
)
def test_pairs(names, others, pairs):
    assert pair_names(names, others) == pairs


@pytest.mark.parametrize(
    ("names", "others"),
    [(["1.wav"], ["x/1.wav", "y/1.wav"]), (["x/1.wav", "y/1.wav"], ["1"]), (["1"], ["1.wav", "1.au"])],
)
def test_names_that_could_be_several(names, others):
    with pytest.raises(AnnotationError, match=r"'1(\.wav)?' could be '.*' or '.*'; name recordings with their folders"):
        pair_names(names, others)


def test_short_names_within_one_side():
    assert full_names(["a", "x/a.wav", "a.wav"]) == {"a": "x/a.wav", "x/a.wav": "x/a.wav", "a.wav": "x/a.wav"}
    # not told apart: it stays what it is
    assert full_names(["a", "a.wav", "a.flac"])["a"] == "a"
    assert full_names(["1.wav", "x/1.wav", "y/1.wav"])["1.wav"] == "1.wav"


paths = st.lists(st.sampled_from(["x", "y", "1", "2"]), min_size=1, max_size=3).map("/".join)


@given(st.lists(paths.map(lambda path: f"{path}.wav"), unique=True, max_size=6), st.sampled_from(["", "/data/", "d/"]))
def test_names_below_another_folder_are_all_found(names, folder):
    try:
        found = pair_names(names, [folder + name for name in names])
    except AnnotationError:
        # such as 1.wav, which could be d/1.wav and d/x/1.wav
        assert any(name != other and other.endswith(f"/{name}") for name in names for other in names)
        return
    assert all(other is None or other == folder + name for name, other in found.items())


def test_names_that_differ_in_case_or_accents_alone():
    composed, apart = "\u00e9.wav", "e\u0301.wav"
    assert pair_names(["A.wav", "a.wav"], ["a.wav", "A.wav"]) == {"A.wav": "A.wav", "a.wav": "a.wav"}
    assert pair_names([composed, "x.wav"], [apart, "x.wav"]) == {composed: apart, "x.wav": "x.wav"}
    assert pair_names([composed, apart], [apart, composed]) == {composed: composed, apart: apart}
