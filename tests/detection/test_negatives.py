"""Negative examples: what was rejected is not found again, and nothing else changes."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile

from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.detector import NoteDetector
from outlark.detection.negatives import WEAK, AsGoodAsNotes, Rejecting, Spans, nearest_first, spans_within
from outlark.detection.note_training import NOTE_SETTINGS
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.maths.description import describe
from outlark.maths.description import scores as description_scores
from outlark.model_file import load, save
from outlark.paper.detector import FrameDetector
from outlark.segments import Segment

#: So low that notes of other kinds are taken for these.
LOW = 0.05


def examples(*classes, n=3, seed=0):
    return notes(seed=seed, counts=dict.fromkeys(classes or ("tuti-D", "cach-Z"), n))


def detector(*classes, n=3):
    known = examples(*classes, n=n)
    made = NoteDetector().fit([k.samples for k in known], [k.label for k in known], SAMPLE_RATE)
    return made.set_thresholds(np.full(len(made.classes_), LOW))


def song(seed=1, **counts):
    """Notes of these classes, two letters apart from each other, and where they are."""
    played = notes(seed=seed, counts={name.replace("_", "-"): n for name, n in counts.items()})
    return concatenate(played, gap_s=0.3, edge_s=0.3, rng=np.random.default_rng(seed))


def found(made, audio, rate=SAMPLE_RATE):
    return [s for s in made.detect(audio, rate) if s.label is not None]


def wrong(segments, truth):
    """What was found where there is no note of that label."""
    return [s for s in segments if not any(t.label == s.label and t.start < s.end and s.start < t.end for t in truth)]


@pytest.fixture(scope="module")
def heard():
    """A recording in which notes of another kind are taken for a class."""
    audio, truth = song(tuti_D=2, cach_Z=1, cach_C=3)
    return audio, truth, wrong(found(detector(), audio), truth)


# ---------------------------------------------------------------- scores


def test_scores_are_zero_where_a_rejected_sound_is_nearer(rng):
    X, y = rng.normal(size=(20, 4)), np.repeat(["a", "b"], 10)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    class_model = MDDKM(**NOTE_SETTINGS).fit(X, y)
    R = rng.normal(size=(5, 4)) / 2.0
    Z = np.concatenate([X + 0.1 * rng.normal(size=X.shape), R + 0.1 * rng.normal(size=R.shape)])
    plain = class_model.class_scores(Z)
    scores = Rejecting(class_model, [None, describe(R, 1.0, 0.1)]).class_scores(Z)

    def naive(z):
        """-log √d to the rejected sounds, as Eq. (11) has it."""
        k = np.exp(-((R - z) ** 2).sum(axis=1))
        K = np.exp(-((R[:, None] - R[None]) ** 2).sum(axis=2)) + 0.1 * np.eye(len(R))
        return -0.5 * np.log(1.0 - k @ np.linalg.inv(K) @ k)

    np.testing.assert_array_equal(scores[:, 0], plain[:, 0])
    nearer = np.array([naive(z) for z in Z]) > plain[:, 1]
    assert 0 < nearer.sum() < len(Z)
    np.testing.assert_array_equal(scores[:, 1], np.where(nearer & (plain[:, 1] >= WEAK), 0.0, plain[:, 1]))
    np.testing.assert_array_equal(class_model.class_scores(Z), plain)


def test_what_a_class_would_find_in_an_annotation(heard):
    """Naively: every start and length one by one, if half of the shorter of note and annotation is in the other."""
    audio, _, alarms = heard
    made, alarm = detector(), alarms[0]
    front_end, c = made.front_end_, made.classes_.tolist().index(alarms[0].label)
    model = made.note_model_
    frames, hop = front_end.transform(audio), made.front_end_.hop_samples_
    least = 0.5 * float(model.thresholds[c])
    spans = spans_within(model, frames, alarm, c, least)
    start, end, naive = alarm.start / hop, alarm.end / hop, []
    for length in model.lengths[model.allowed[:, c]]:
        for at in range(0, len(frames) - round(length) + 1, model.step):
            shared = min(at + round(length), end) - max(at, start)
            active = (frames.activity[at : at + round(length)] > 0.0).mean() >= 0.5
            if 2 * shared >= min(round(length), end - start) and active:
                x = front_end.describe(frames.features, start=float(at), n_starts=1, length=float(length))
                value = model.class_model.class_scores(x)[0, c]
                naive += [value] if value >= least else []
    assert len(naive) > 5
    np.testing.assert_allclose(np.sort(spans.scores), np.sort(naive), rtol=1e-9)
    np.testing.assert_allclose(model.class_model.class_scores(spans.samples)[:, c], spans.scores, rtol=1e-9)
    assert spans.best == spans.scores.max() == pytest.approx(alarm.score)


@pytest.mark.parametrize(("shift", "inside"), [(0.35, True), (0.6, False), (-0.35, True), (-0.6, False)])
def test_a_note_lies_in_an_annotation_if_they_share_half_of_the_shorter(shift, inside):
    audio, (note,) = song(tuti_D=1)
    made = detector()
    frames, c = made.front_end_.transform(audio), made.classes_.tolist().index("tuti-D")
    moved = round(shift * (note.end - note.start))
    beside = replace(note, start=note.start + moved, end=note.end + moved)
    best, best_beside = (spans_within(made.note_model_, frames, s, c, 0.05).best for s in (note, beside))
    assert (best_beside == pytest.approx(best)) == inside


def test_as_few_samples_as_reject_all(rng):
    of_class = describe(rng.normal(size=(3, 2)), 1.0, 0.1)
    Z, scores = rng.normal(size=(40, 2)), rng.uniform(0.0, 0.5, size=40)
    X = nearest_first(Spans(Z, scores, scores), of_class, np.empty((0, 2)))
    assert 1 < len(X) < 40

    def open_after(n):
        return [i for i in range(40) if not n or description_scores(describe(X[:n], 1.0, 0.1), Z[[i]])[0] <= scores[i]]

    for n in range(len(X)):
        np.testing.assert_array_equal(X[n], Z[max(open_after(n), key=lambda i: scores[i])])
    assert open_after(len(X)) == []
    np.testing.assert_array_equal(nearest_first(Spans(Z, scores, scores), of_class, X), X)
    np.testing.assert_array_equal(nearest_first(Spans(Z, scores, scores), of_class, np.empty((0, 2)), most=2), X[:2])


# ---------------------------------------------------------------- the detector


def test_what_was_rejected_is_not_found_again(heard):
    audio, truth, alarms = heard
    assert len(alarms) == 3
    made = detector()
    before = found(made, audio)
    assert made.reject([audio], [alarms[:1]], SAMPLE_RATE) is made
    again = found(made, audio)
    assert wrong(again, truth) == []
    assert len(again) == len(before) - 3  # the other two are of the same kind
    other, their_truth = song(seed=5, tuti_D=2, cach_Z=2, cach_C=2)
    assert wrong(found(detector(), other), their_truth)
    kept = found(made, other)
    assert [s.label for s in kept] == [t.label for t in their_truth if t.label in ("tuti-D", "cach-Z")]


def test_no_other_class_changes(heard):
    audio, _, alarms = heard
    made = detector()
    (label,) = {s.label for s in alarms}
    c = made.classes_.tolist().index(label)
    plain = made.scores(audio, SAMPLE_RATE).block.values
    made.reject([audio], [alarms], SAMPLE_RATE)
    values = made.scores(audio, SAMPLE_RATE).block.values
    # a class model that rejects describes every span, and rounds otherwise than the projections do
    np.testing.assert_allclose(values[:, 1 - c], plain[:, 1 - c], atol=1e-9)
    assert (values[:, c] <= plain[:, c] + 1e-9).all()
    assert (values[:, c] < plain[:, c]).any()


def test_a_long_annotation_says_what_a_short_one_says(heard):
    """What is described is what the class would find in it, not the annotation."""
    audio, truth, alarms = heard
    last = max(t.end for t in truth if t.label != "cach-C")
    (label,) = {s.label for s in alarms}
    rest = Segment(start=last, end=len(audio), sample_rate=SAMPLE_RATE, label=label)
    made = detector().reject([audio], [[rest]], SAMPLE_RATE)
    assert wrong(found(made, audio), truth) == []
    assert [s.label for s in found(made, audio)] == [t.label for t in truth if t.label != "cach-C"]


def test_one_after_the_other_is_all_at_once(heard):
    audio, _, alarms = heard
    once, one_by_one = detector().reject([audio], [alarms], SAMPLE_RATE), detector()
    for alarm in alarms:
        one_by_one.reject([audio], [[alarm]], SAMPLE_RATE)
    assert one_by_one.model_.negatives == once.model_.negatives
    assert found(one_by_one, audio) == found(once, audio)


def test_where_nothing_would_be_found_there_is_nothing_to_reject(heard):
    audio, _, _ = heard
    made = detector()
    silence = Segment.from_seconds(0.0, 0.2, "tuti-D", SAMPLE_RATE)
    made.reject([audio], [[silence]], SAMPLE_RATE)
    assert made.note_model_.rejected is None
    assert [n["label"] for n in made.model_.negatives] == ["tuti-D"]
    assert made.model_.negatives[0]["score"] == 0.0


def test_negatives_beside_the_notes(heard):
    audio, truth, alarms = heard
    notes_of = [t for t in truth if t.label in ("tuti-D", "cach-Z")]
    alone = NoteDetector().fit_recordings([audio], [notes_of], SAMPLE_RATE)
    together = NoteDetector().fit_recordings([audio], [notes_of], SAMPLE_RATE, negatives=[alarms])
    assert not alone.model_.negatives
    alone.reject([audio], [alarms], SAMPLE_RATE)
    assert together.model_.negatives == alone.model_.negatives
    assert together.model_.training == alone.model_.training
    np.testing.assert_array_equal(together.layout_.thresholds, alone.layout_.thresholds)
    one, other = (made.scores(audio, SAMPLE_RATE).block.values for made in (alone, together))
    np.testing.assert_array_equal(one, other)
    again = together.fit_recordings([audio], [notes_of], SAMPLE_RATE)
    assert not again.model_.negatives
    assert again.note_model_.rejected is None


def test_negative_clips_and_files(heard, tmp_path):
    audio, truth, alarms = heard
    first = alarms[0]
    soundfile.write(tmp_path / "not.wav", audio[first.start : first.end], SAMPLE_RATE, subtype="DOUBLE")
    made = detector().reject_clips([tmp_path / "not.wav"], [first.label])
    assert wrong(found(made, audio), truth) == []
    (note,) = made.model_.negatives
    assert (note["name"], note["label"], note["clip"]) == ("not.wav", first.label, True)
    soundfile.write(tmp_path / "all.wav", audio, SAMPLE_RATE, subtype="DOUBLE")
    made = detector().reject([tmp_path / "all.wav"], [[first]])
    assert wrong(found(made, audio), truth) == []
    assert made.model_.negatives[0]["name"] == "all.wav"
    assert made.model_.negatives[0]["start_s"] == first.start_s


def test_at_another_rate(heard):
    audio, truth, alarms = heard
    double = resample(audio, SAMPLE_RATE, 2 * SAMPLE_RATE)
    annotations = [Segment.from_seconds(s.start_s, s.end_s, s.label, 2 * SAMPLE_RATE) for s in alarms[:1]]
    made = detector().reject([double], [annotations], 2 * SAMPLE_RATE)
    assert wrong(found(made, audio), truth) == []


def test_live_is_batch(heard):
    audio, _, alarms = heard
    made = detector().reject([audio], [alarms[:1]], SAMPLE_RATE)
    stream = made.stream(SAMPLE_RATE)
    live = [s for at in range(0, len(audio), 777) for s in stream.push(audio[at : at + 777]).segments]
    assert live + stream.finish().segments == made.detect(audio, SAMPLE_RATE)


def test_with_a_second_stage(heard):
    """What is rejected by its spectra is no candidate, and is not embedded."""
    audio, truth, alarms = heard
    embedded = []

    def embedding(samples, sample_rate):
        embedded.append(len(samples))
        return np.abs(np.fft.rfft(samples, 64)) ** 0.5

    known = examples()
    made = NoteDetector(embedding=embedding).fit([k.samples for k in known], [k.label for k in known], SAMPLE_RATE)
    made.model_ = replace(made.model_, spectral_thresholds=np.full(2, 2 * LOW))
    made.set_thresholds([LOW, LOW])
    embedded.clear()
    assert wrong(found(made, audio), truth)
    before = len(embedded)
    made.reject([audio], [alarms], SAMPLE_RATE)
    embedded.clear()
    assert wrong(found(made, audio), truth) == []
    assert len(embedded) < before


# ---------------------------------------------------------------- thresholds


def test_thresholds_stay_and_so_does_a_calibration(heard, tmp_path):
    audio, _, alarms = heard
    made = detector().calibrate([audio], SAMPLE_RATE)
    before, calibration = made.layout_.thresholds, made.calibration_
    made.reject([audio], [alarms], SAMPLE_RATE)
    np.testing.assert_array_equal(made.layout_.thresholds, before)
    assert made.calibration_ == calibration
    save(made, tmp_path / "m.outlark")
    assert load(tmp_path / "m.outlark").calibration_ == calibration


def test_a_note_that_is_rejected_is_told():
    """Somebody rejects a true note."""
    audio, truth = song(tuti_D=2)
    made = detector("tuti-D")
    with pytest.warns(AsGoodAsNotes, match=r"1 of 1 negatives of 'tuti-D' cannot be told apart"):
        made.reject([audio], [[replace(truth[0], label="tuti-D")]], SAMPLE_RATE)
    assert made.model_.negatives[0]["score"] >= made.note_model_.left_out[0].min()


# ---------------------------------------------------------------- what is refused


def test_a_label_that_is_no_class(heard):
    audio, _, alarms = heard
    with pytest.raises(InputError, match=r"s of recording 0 is not 'wren', .* no such class; there are cach-Z, "):
        detector().reject([audio], [[replace(alarms[0], label="wren")]], SAMPLE_RATE)
    with pytest.raises(InputError, match=r"clip 0 is not 'wren'"):
        detector().reject_clips([audio], ["wren"], SAMPLE_RATE)


def test_a_note_cannot_be_its_own_negative(heard):
    audio, truth, _ = heard
    note = next(t for t in truth if t.label == "tuti-D")
    with pytest.raises(InputError, match=r"but a note 'tuti-D' is annotated there as well, at 0\.\d+ to"):
        NoteDetector().fit_recordings([audio], [[note]], SAMPLE_RATE, negatives=[[note]])


def test_only_on_the_absolute_scale(heard):
    audio, _, alarms = heard
    known = examples()
    clips, labels = [k.samples for k in known], [k.label for k in known]
    other = FrameDetector.paper().fit(clips, labels, SAMPLE_RATE)
    with pytest.raises(InputError, match=r"only a note-level detector with the default class model"):
        other.reject([audio], [alarms], SAMPLE_RATE)


# ---------------------------------------------------------------- files


@pytest.fixture
def kept(heard, tmp_path):
    audio, _, alarms = heard
    made = detector().reject([audio], [alarms], SAMPLE_RATE)
    save(made, tmp_path / "m.outlark")
    return made, tmp_path / "m.outlark"


def test_a_file_keeps_them(heard, kept):
    audio, _, alarms = heard
    made, path = kept
    again = load(path)
    assert again.model_.negatives == made.model_.negatives
    assert len(again.model_.negatives) == len(alarms)
    assert again.detect(audio, SAMPLE_RATE) == made.detect(audio, SAMPLE_RATE)
    other = detector()
    save(other, path)
    assert load(path).model_.negatives == ()
