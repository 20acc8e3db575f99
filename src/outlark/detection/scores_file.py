"""Class scores of a recording in a file (`files.container`), to be decided again without the audio.

All numbers are kept to the last bit, because a rounded score can move a segment. Only frames with a score are stored:
at note level at most every second one, and none in silence.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from outlark.audio.sound import HIGHEST_RATE
from outlark.detection.detector import NoteDetector
from outlark.detection.scorer import REFINED_SHARE
from outlark.detection.scores import NO_SOUND, ScoreBlock, ScoreLayout, Scores
from outlark.errors import InputError, ModelFileError
from outlark.files.container import about, pack, read, unpack, write
from outlark.segments import Segment
from outlark.version import __version__

SCORES_KIND = "Scores"
#: Attributes of the layout, by their names in the file.
OF_CLASSES = {
    "thresholds": "thresholds",
    "shortest_s": "shortest_s",
    "longest_s": "longest_s",
    "note_thresholds": "mean_thresholds",
}
LAYOUT_COUNTS = ("sample_rate", "hop_samples", "offset_samples")
#: Least and most of each number in the header. A recording with more samples would last for years.
BOUNDS = {
    "rate": (1, HIGHEST_RATE),
    "samples": (0, 2**53),
    "sample_rate": (1, HIGHEST_RATE),
    "hop_samples": (1, 2**31),
    "offset_samples": (0, 2**31),
    "channel": (1, 2**16),
}
#: Seconds by which the lengths of a recording at its own rate and at that of the model may differ, and seconds (or
#: frames, for series of a few samples a minute) that may lack scores at its end.
ABOUT_S, TAIL_S, TAIL_FRAMES = 0.1, 60.0, 1000
#: Thresholds typed by hand may be rounded.
TYPED_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptScores:
    """The scores of a recording, and what locates them in it."""

    #: At the rate of the model.
    scores: Scores
    #: Of the recording itself.
    sample_rate: int
    n_samples: int
    #: Its name, and where it was.
    recording: str | None = None
    path: str | None = None
    #: Counted from 1; None for the mean of all.
    channel: int | None = None
    #: Of the model file that gave the scores, and of all in it that scores depend on (`model_file.scoring_sha256`).
    model_sha256: str | None = None
    scoring_sha256: str | None = None
    #: The thresholds of classes that were fitted to the recordings of the run; None where one has those of the model.
    calibrated: Sequence[float | None] | None = None
    #: Further facts about the recording, as JSON values; see `outlark.audio.facts.Facts`.
    facts: Mapping[str, Any] = field(default_factory=dict)

    def decide(self, detector: NoteDetector) -> list[Segment]:
        """The segments that `detector.detect` would find with its present decisions and thresholds."""
        layout = replace(self.scores.layout, thresholds=detector.layout_.thresholds)
        decisions = detector.decisions_.stream(layout, sample_rate=self.sample_rate)
        segments = decisions.push(self.scores.block)
        return segments + decisions.finish(self.scores.n_samples, self.n_samples)

    def remark_on_edges(self, detector: NoteDetector) -> str | None:
        """A remark if `decide` may find notes whose edges were not refined when the scores were kept.

        Edges were refined from a share of the lower of two thresholds on: that of the training and that of the run.
        """
        if detector.note_model_ is None:
            return None
        now, kept_from = detector.layout_.thresholds, REFINED_SHARE * self.scores.layout.thresholds
        kept_from = np.minimum(kept_from, REFINED_SHARE * detector.trained_thresholds)
        below = now < kept_from * (1.0 - TYPED_ROUNDING)
        if not below.any():
            return None
        c = int(below.argmax())
        return (
            f"the threshold {now[c]:.3g} of {detector.classes_[c]} is below {kept_from[c]:.3g}, from which edges were "
            "refined when the scores were kept; detect again with --threshold for exact edges of such notes"
        )


class ScoreKeeper:
    """Collects the scores of a recording block by block, without the frames that have none; as in `KeptScores`.

    >>> from tempfile import TemporaryDirectory
    >>> from outlark.data.synthetic import SAMPLE_RATE, notes
    >>> known = notes(counts={"tuti-F": 3, "cach-Z": 3})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> scores, segments = detector.scores_and_segments(known[0].samples, SAMPLE_RATE)
    >>> keeper = ScoreKeeper(scores.layout, SAMPLE_RATE)
    >>> keeper.push(scores.block)
    >>> with TemporaryDirectory() as folder:
    ...     keeper.save(f"{folder}/a.wav.scores", n_samples=len(known[0].samples), n_model_samples=scores.n_samples)
    ...     again = load_scores(f"{folder}/a.wav.scores")
    >>> again.decide(detector) == segments
    True
    """

    def __init__(
        self,
        layout: ScoreLayout,
        sample_rate: int,
        *,
        recording: str | None = None,
        path: str | None = None,
        channel: int | None = None,
        model_sha256: str | None = None,
        scoring_sha256: str | None = None,
        calibrated: Sequence[float | None] | None = None,
    ) -> None:
        self._layout = layout
        self._header = {
            "kind": SCORES_KIND,
            "recording": recording,
            "path": path,
            "channel": channel,
            "rate": int(sample_rate),
            "model_sha256": model_sha256,
            "scoring_sha256": scoring_sha256,
            "calibrated": None if calibrated is None else list(calibrated),
            "versions": {"outlark": __version__},
        }
        self._parts: list[dict[str, np.ndarray]] = []

    def push(self, block: ScoreBlock) -> None:
        """The scores of the next frames."""
        if len(block) or not self._parts:
            self._parts.append(_packed(block))

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        n_samples: int,
        n_model_samples: int,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Write them all, given the length of the recording at its own rate and at that of the model."""
        layout = self._layout
        of_classes = {name: getattr(layout, attribute) for name, attribute in OF_CLASSES.items()}
        arrays = {name: np.asarray(value, dtype=float) for name, value in of_classes.items() if value is not None}
        counts = {name: int(getattr(layout, name)) for name in LAYOUT_COUNTS}
        header = {
            **self._header,
            "samples": int(n_samples),
            "layout": {**counts, "samples": int(n_model_samples)},
            "classes": pack(layout.classes, "classes", arrays),
            "facts": dict(facts or {}),
        }
        # the first block shows which arrays there are: frames have no lengths
        joined = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        spans = _packed_spans(joined.pop("spans")) if "spans" in joined else {}
        write(path, header, {**arrays, **joined, "scored": np.packbits(joined["scored"]), **spans})


def load_scores(
    path: str | os.PathLike[str], model_sha256: str | None = None, scoring_sha256: str | None = None
) -> KeptScores:
    """The scores that were saved, to the last bit.

    With the digest of a model, scores of any other model are refused, unless it gives the same scores: one with other
    thresholds, such as a calibrated one, has the same `scoring_sha256`.
    """
    kept = _loaded(path)
    same = scoring_sha256 is not None and kept.scoring_sha256 == scoring_sha256
    if model_sha256 is not None and kept.model_sha256 != model_sha256 and not same:
        raise InputError(
            f"{path}: scores of another model (sha256 {kept.model_sha256!s:.12}…), not of this one "
            f"({model_sha256:.12}…); give that model, or detect again"
        )
    return kept


def _loaded(path: str | os.PathLike[str]) -> KeptScores:
    header, arrays = read(path)
    with about(path, "read", "keep the scores again: outlark detect --keep-scores"):
        if header.get("kind") != SCORES_KIND:
            raise ModelFileError(
                f"it holds a {header.get('kind')!r:.100}, not scores; give a file of outlark detect --keep-scores"
            )
        try:
            kept = _kept(header, arrays)
            _check_lengths(kept)
            kept.scores.check()
            return kept
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, ModelFileError | InputError):
                raise
            message = f"damaged: {type(error).__name__} {error!s:.200}; keep the scores again"
            raise ModelFileError(message) from None


def _kept(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> KeptScores:
    classes = unpack(header["classes"], "classes", arrays)
    of_classes: dict[str, Any] = {
        attribute: _floats(arrays, name, (len(classes),)) for name, attribute in OF_CLASSES.items() if name in arrays
    }
    counts: dict[str, Any] = {name: _count(header["layout"], name) for name in LAYOUT_COUNTS}
    block = _unpacked(arrays, len(classes))
    level: Literal["note", "frame"] = "frame" if block.lengths is None else "note"
    layout = ScoreLayout(level=level, classes=classes, **counts, **of_classes)
    return KeptScores(
        scores=Scores(layout=layout, block=block, n_samples=_count(header["layout"], "samples")),
        sample_rate=_count(header, "rate"),
        n_samples=_count(header, "samples"),
        recording=_text(header, "recording"),
        path=_text(header, "path") if "path" in header else None,
        channel=None if header["channel"] is None else _count(header, "channel"),
        model_sha256=_text(header, "model_sha256"),
        scoring_sha256=_text(header, "scoring_sha256") if "scoring_sha256" in header else None,
        calibrated=_thresholds(header.get("calibrated"), len(classes)),
        facts=dict(header.get("facts", {})),
    )


def _count(header: dict[str, Any], name: str) -> int:
    """A whole number within its bounds."""
    value, (least, most) = header[name], BOUNDS[name]
    if type(value) is not int or not least <= value <= most:
        raise ModelFileError(
            f"damaged: {name} is {value!r:.60}, expected a whole number from {least} to {most}; keep the scores again"
        )
    return value


def _thresholds(values: Any, n_classes: int) -> tuple[float | None, ...] | None:
    """Numbers above 0, or None, one for each class; or None."""
    if values is None:
        return None
    fit = isinstance(values, list) and len(values) == n_classes
    if not fit or not all(v is None or (isinstance(v, float) and 0.0 < v < math.inf) for v in values):
        raise ModelFileError(f"damaged: calibrated is {values!r:.60}, expected thresholds; keep the scores again")
    return tuple(values)


def _text(header: dict[str, Any], name: str) -> str | None:
    if header[name] is not None and not isinstance(header[name], str):
        raise ModelFileError(f"damaged: {name} is {header[name]!r:.60}, expected text or null; keep the scores again")
    return header[name]


def _check_lengths(kept: KeptScores) -> None:
    """The length of the recording, its length at the rate of the model, and the frames must agree."""
    layout, scores = kept.scores.layout, kept.scores
    own_s, model_s = kept.n_samples / kept.sample_rate, scores.n_samples / layout.sample_rate
    frames_s = (layout.offset_samples + len(scores.block) * layout.hop_samples) / layout.sample_rate
    if abs(own_s - model_s) > ABOUT_S:
        raise ModelFileError(
            f"damaged: the recording lasts {own_s:.3f} s by its own samples and {model_s:.3f} s by those of the model; "
            "keep the scores again"
        )
    hop_s = layout.hop_samples / layout.sample_rate
    if len(scores.block) and not model_s - max(TAIL_S, TAIL_FRAMES * hop_s) <= frames_s <= model_s + hop_s + ABOUT_S:
        raise ModelFileError(
            f"damaged: {len(scores.block)} frames of {layout.hop_samples} samples reach to {frames_s:.3f} s of "
            f"{model_s:.3f} s; keep the scores again"
        )


def block_arrays(block: ScoreBlock) -> dict[str, np.ndarray]:
    """A block in compact form, to the last bit; `block_of` restores it.

    >>> block = ScoreBlock(np.array([[0.0], [2.0]]), np.array([1.0, 3.0]), np.array([[1], [5]]))
    >>> block_of(block_arrays(block), n_classes=1).lengths.ravel()
    array([1, 5])
    """
    packed = _packed(block)
    spans = _packed_spans(packed.pop("spans")) if "spans" in packed else {}
    return {**packed, "scored": np.packbits(packed["scored"]), **spans}


def block_of(arrays: Mapping[str, np.ndarray], n_classes: int) -> ScoreBlock:
    """What `block_arrays` was given."""
    return _unpacked(arrays, n_classes)


def _packed(block: ScoreBlock) -> dict[str, np.ndarray]:
    """The arrays of a block without the rows that have no score: all 0, with lengths of 1."""
    values = np.asarray(block.values, dtype=float)
    scored = (values != 0.0).any(axis=1)
    if block.lengths is not None:
        scored |= (block.lengths != 1).any(axis=1)
    arrays = {"scored": scored, "values": values[scored], "activity": np.array(block.activity, dtype=float)}
    if block.lengths is None:
        return arrays
    lengths = np.asarray(block.lengths, dtype=np.int64)[scored]
    short = not lengths.size or (lengths.min() >= 0 and lengths.max() < 2**16)
    arrays["lengths"] = lengths.astype(np.uint16) if short else lengths
    if block.spans is not None:
        arrays["spans"] = block.spans
    return arrays if block.moves is None else {**arrays, "moves": block.moves[scored].astype(np.int8)}


def _packed_spans(spans: np.ndarray) -> dict[str, np.ndarray]:
    """The spans of frames with sound, in three bytes each: there are as many frequencies as bands, not more."""
    sounding = spans[:, 0] > NO_SOUND
    frequencies, numbers = np.unique(spans[sounding, 1:], return_inverse=True)
    return {
        "heard": np.packbits(sounding),
        "span_levels": spans[sounding, 0].astype(np.int16),
        "span_hz": frequencies,
        "span_edges": numbers.reshape(-1, 2).astype(np.uint8 if len(frequencies) <= 2**8 else np.uint32),
    }


def _unpacked_spans(arrays: Mapping[str, np.ndarray], n_frames: int) -> np.ndarray | None:
    """None for scores of frames."""
    if "heard" not in arrays:
        return None
    sounding = np.unpackbits(arrays["heard"], count=n_frames).astype(bool)
    spans = np.zeros((n_frames, 3), dtype=np.float32)
    spans[:, 0] = NO_SOUND
    spans[sounding, 0] = arrays["span_levels"]
    if sounding.any():
        spans[sounding, 1:] = np.take(arrays["span_hz"], arrays["span_edges"])
    return spans


def _unpacked(arrays: Mapping[str, np.ndarray], n_classes: int) -> ScoreBlock:
    activity = _floats(arrays, "activity", (arrays["activity"].size,))
    packed = arrays["scored"]
    if packed.dtype != np.uint8 or packed.shape != (-(-len(activity) // 8),):
        raise ModelFileError(f"damaged: {len(activity)} frames and {packed.shape} bits of them; keep the scores again")
    scored = np.unpackbits(packed, count=len(activity)).astype(bool)
    kept = int(scored.sum())
    values = np.zeros((len(activity), n_classes))
    values[scored] = _floats(arrays, "values", (kept, n_classes))
    if "lengths" not in arrays:
        return ScoreBlock(values, activity)
    lengths = np.ones(values.shape, dtype=np.int64)
    lengths[scored] = _whole_numbers("lengths", arrays["lengths"], (kept, n_classes), 0, 2**31)
    spans = _unpacked_spans(arrays, len(activity))
    if "moves" not in arrays:
        return ScoreBlock(values, activity, lengths, None, spans)
    moves = np.zeros((*values.shape, 2), dtype=np.int64)
    moves[scored] = _whole_numbers("moves", arrays["moves"], (kept, n_classes, 2), -(2**7), 2**7)
    return ScoreBlock(values, activity, lengths, moves, spans)


def _floats(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = arrays[name]
    if array.shape != shape or array.dtype != np.float64 or np.isnan(array).any():
        raise ModelFileError(
            f"damaged: {name} is {array.dtype} of shape {array.shape}, expected numbers of shape {shape}; keep the "
            "scores again"
        )
    return array


def _whole_numbers(name: str, array: np.ndarray, shape: tuple[int, ...], least: int, most: int) -> np.ndarray:
    if array.shape != shape or array.dtype.kind not in "iu" or np.any((array < least) | (array > most)):
        raise ModelFileError(
            f"damaged: {name} is {array.dtype} of shape {array.shape}, expected whole numbers from {least} to {most} "
            f"of shape {shape}; keep the scores again"
        )
    return array
