"""Class scores of a recording in a file (`outlark.container`), so that it can be decided on again without the audio.

All numbers are kept to the last bit, because a score that moves by a rounding can move a segment. Only frames at which
something was scored are stored; with whole notes that is at most every second one, and none in silence.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outlark.container import about, read, write
from outlark.errors import InputError, ModelFileError
from outlark.estimators.state_fields import Fields
from outlark.notes.decisions import Decisions
from outlark.notes.detector import NoteDetector
from outlark.notes.live import at_rate, last_segments
from outlark.notes.note_bounds import NOTHING
from outlark.notes.scores import ScoreBlock, ScoreLayout, Scores
from outlark.notes.segments import Segment
from outlark.version import __version__

KIND = "Scores"
OF_CLASSES = ("thresholds", "shortest_s", "longest_s", "note_thresholds")
COUNTS = ("sample_rate", "hop_samples", "offset_samples")


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptScores:
    """The scores of a recording, and what it takes to say where in the recording they are.

    Attributes
    ----------
    scores : Scores
        At the rate of the model.
    sample_rate, n_samples : int
        Of the recording itself.
    recording : str, optional
        Its name.
    channel : int, optional
        Counted from 1; None for the mean of all.
    model_sha256 : str, optional
        Of the model file that gave the scores.
    facts : mapping
        What else is to be said of the recording, as JSON values; see `outlark.batch.facts.Facts`.
    """

    scores: Scores
    sample_rate: int
    n_samples: int
    recording: str | None = None
    channel: int | None = None
    model_sha256: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def decide(self, detector: NoteDetector) -> list[Segment]:
        """The segments that `detector.detect` finds in the recording, by the decisions that the detector has now."""
        decisions = (detector.decisions or Decisions()).stream(self.scores.layout)
        segments = at_rate(decisions.push(self.scores.block), self.sample_rate)
        last = decisions.finish(self.scores.n_samples)
        return segments + last_segments(last, self.sample_rate, self.n_samples, self.scores.n_samples)


class ScoreKeeper:
    """Collects the scores of a recording block by block, without the frames at which nothing was scored.

    Parameters
    ----------
    layout : ScoreLayout
    sample_rate : int
        Of the recording.
    recording, channel, model_sha256 : see `KeptScores`
    """

    def __init__(
        self,
        layout: ScoreLayout,
        sample_rate: int,
        *,
        recording: str | None = None,
        channel: int | None = None,
        model_sha256: str | None = None,
    ) -> None:
        self._layout = layout
        self._header = {
            "kind": KIND,
            "recording": recording,
            "channel": channel,
            "rate": int(sample_rate),
            "model_sha256": model_sha256,
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
        """Write them all, of a recording of `n_samples`, at the rate of the model `n_model_samples`."""
        layout, fields = self._layout, Fields({}, {})
        fields.put_labels("classes", layout.classes)
        for name in OF_CLASSES:
            if getattr(layout, name) is not None:
                fields.put_array(name, np.asarray(getattr(layout, name), dtype=float))
        counts = {name: int(getattr(layout, name)) for name in COUNTS}
        header = {
            **self._header,
            "samples": int(n_samples),
            "layout": {**counts, "samples": int(n_model_samples)},
            "classes": fields.settings,
            "facts": dict(facts or {}),
        }
        # the first block tells which arrays there are: frames have no lengths
        joined = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        spans = _packed_spans(joined.pop("spans")) if "spans" in joined else {}
        write(path, header, {**fields.arrays, **joined, "scored": np.packbits(joined["scored"]), **spans})


def save_scores(kept: KeptScores, path: str | os.PathLike[str]) -> None:
    """Write scores to a file that is there whole or not at all; the same scores give the same bytes.

    Parameters
    ----------
    kept : KeptScores
    path : str or path
        Usually ends in ``.scores``.

    Raises
    ------
    ModelFileError
        When the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from outlark.experiment.synthetic import SAMPLE_RATE, notes
    >>> known = notes(counts={"tuti-F": 3, "cach-Z": 3})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> audio = known[0].samples
    >>> scores = detector.scores(audio, SAMPLE_RATE)
    >>> with TemporaryDirectory() as folder:
    ...     kept = KeptScores(scores=scores, sample_rate=SAMPLE_RATE, n_samples=len(audio))
    ...     save_scores(kept, f"{folder}/a.wav.scores")
    ...     again = load_scores(f"{folder}/a.wav.scores")
    >>> again.decide(detector) == detector.detect(audio, SAMPLE_RATE)
    True
    """
    keeper = ScoreKeeper(
        kept.scores.layout,
        kept.sample_rate,
        recording=kept.recording,
        channel=kept.channel,
        model_sha256=kept.model_sha256,
    )
    keeper.push(kept.scores.block)
    keeper.save(path, n_samples=kept.n_samples, n_model_samples=kept.scores.n_samples, facts=kept.facts)


def load_scores(path: str | os.PathLike[str], model_sha256: str | None = None) -> KeptScores:
    """The scores that were saved, to the last bit.

    Parameters
    ----------
    path : path of the file
    model_sha256 : str, optional
        Of the model that must have given them: thresholds of one model say nothing about the scores of another.

    Raises
    ------
    ModelFileError
        For anything but a whole, undamaged file of scores; the message begins with the path.
    InputError
        For scores of another model.
    """
    kept = _loaded(path)
    if model_sha256 is not None and kept.model_sha256 != model_sha256:
        raise InputError(
            f"{path}: scores of another model (sha256 {kept.model_sha256!s:.12}…), not of this one "
            f"({model_sha256:.12}…); give that model, or detect again"
        )
    return kept


def _loaded(path: str | os.PathLike[str]) -> KeptScores:
    header, arrays = read(path)
    with about(path, "read", "keep the scores again: outlark detect --keep-scores"):
        if header.get("kind") != KIND:
            raise ModelFileError(
                f"it holds a {header.get('kind')!r:.100}, not scores; give a file of outlark detect --keep-scores"
            )
        try:
            return _kept(header, arrays)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, ModelFileError | InputError):
                raise
            message = f"damaged: {type(error).__name__} {error!s:.200}; keep the scores again"
            raise ModelFileError(message) from None


def _kept(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> KeptScores:
    fields = Fields(header["classes"], arrays)
    classes = fields.labels("classes", None)
    of_classes: dict[str, Any] = {
        name: fields.array(name, len(classes), finite=False) for name in OF_CLASSES if name in arrays
    }
    counts: dict[str, Any] = {name: int(header["layout"][name]) for name in COUNTS}
    layout = ScoreLayout(classes=classes, **counts, **of_classes)
    return KeptScores(
        scores=Scores(layout=layout, block=_unpacked(arrays, len(classes)), n_samples=int(header["layout"]["samples"])),
        sample_rate=int(header["rate"]),
        n_samples=int(header["samples"]),
        recording=header["recording"],
        channel=header["channel"],
        model_sha256=header["model_sha256"],
        facts=dict(header.get("facts", {})),  # files of earlier versions have none
    )


def _packed(block: ScoreBlock) -> dict[str, np.ndarray]:
    """The arrays of a block without the rows in which nothing was scored; those are all 0, with lengths of 1."""
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
    """The spans of frames that were heard, in three bytes each: there are as many frequencies as bands, not more."""
    heard = spans[:, 0] > NOTHING
    frequencies, numbers = np.unique(spans[heard, 1:], return_inverse=True)
    return {
        "heard": np.packbits(heard),
        "span_levels": spans[heard, 0].astype(np.int16),
        "span_hz": frequencies,
        "span_edges": numbers.reshape(-1, 2).astype(np.uint8 if len(frequencies) <= 2**8 else np.uint32),
    }


def _unpacked_spans(arrays: dict[str, np.ndarray], n_frames: int) -> np.ndarray | None:
    """None for files of before bounds were kept."""
    if "heard" not in arrays:
        return None
    heard = np.unpackbits(arrays["heard"], count=n_frames).astype(bool)
    spans = np.zeros((n_frames, 3), dtype=np.float32)
    spans[:, 0] = NOTHING
    spans[heard, 0] = arrays["span_levels"]
    if heard.any():
        spans[heard, 1:] = np.take(arrays["span_hz"], arrays["span_edges"])
    return spans


def _unpacked(arrays: dict[str, np.ndarray], n_classes: int) -> ScoreBlock:
    activity = arrays["activity"]
    scored = np.unpackbits(arrays["scored"], count=len(activity)).astype(bool)
    values = np.zeros((len(activity), n_classes))
    values[scored] = arrays["values"]
    if "lengths" not in arrays:
        return ScoreBlock(values, activity)
    lengths = np.ones(values.shape, dtype=np.int64)
    lengths[scored] = arrays["lengths"]
    spans = _unpacked_spans(arrays, len(activity))
    if "moves" not in arrays:
        return ScoreBlock(values, activity, lengths, None, spans)
    moves = np.zeros((*values.shape, 2), dtype=np.int64)
    moves[scored] = arrays["moves"]
    return ScoreBlock(values, activity, lengths, moves, spans)
