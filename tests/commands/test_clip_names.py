"""UniqueNames of files: every system takes them, and no two are the same."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlark.commands.clips import MAX_NAME_BYTES, UniqueNames, safe_name

RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@given(st.text())
def test_every_system_takes_the_name(tmp_path_factory, text):
    name = safe_name(text)
    assert 0 < len(name.encode()) <= MAX_NAME_BYTES
    assert not set(name) & set('/\\:*?"<>|\0')
    assert not {name[0], name[-1]} & set(" .")
    assert not RESERVED.fullmatch(name)
    assert not any(unicodedata.category(letter) == "Cc" for letter in name)
    assert safe_name(name) == name
    folder = tmp_path_factory.getbasetemp() / "names"
    folder.mkdir(exist_ok=True)
    (folder / name).touch()
    assert (folder / name).exists()


@pytest.mark.parametrize("plain", ["tuti-D", "Parus major", "Zilpzalp, Ruf", "шесть", "鳴き声", "a.b", "é", "song (2)"])
def test_plain_labels_stay_as_they_are(plain):
    assert safe_name(plain) == plain


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "_"),
        ("..", "_"),
        (".hidden", "_.hidden"),
        ("a/b\\c", "a_b_c"),
        ("CON", "_CON"),
        ("com1.wav", "_com1.wav"),
        ("conure", "conure"),
        ("end. .", "end"),
        ("a\nb\x00\u202e", "a_b__"),
        ("\ud800", "_"),
        ("e\u0301", "é"),
        ("ü" * 100, "ü" * 60),
    ],
)
def test_odd_labels(text, name):
    assert safe_name(text) == name


@given(st.lists(st.sampled_from(["a", "A", "a_2", "b", "É", "é", "e\u0301"])))
def test_names_are_handed_out_once(wanted):
    names = UniqueNames()
    given_out = [names.new(name, ".wav") for name in wanted]
    keys = [unicodedata.normalize("NFC", name.casefold()) for name in given_out]
    assert len(set(keys)) == len(wanted)
    assert all(name.endswith(".wav") for name in given_out)
