"""Writing annotation files of any format, and an example of each."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from outlark.annotations import aoef, audacity, exact_formats, other_csv, outlark_csv, raven
from outlark.annotations.annotation import About, Annotation
from outlark.annotations.files import side_path, written
from outlark.annotations.formats import FORMATS, format_named, is_ready
from outlark.annotations.provenance import write_about
from outlark.errors import AnnotationError, InputError
from outlark.version import __version__

_WRITERS: dict[str, Callable[[Collection[Annotation], About, Mapping[str, float]], Iterator[bytes]]] = {
    "raven": raven.write,
    "audacity": audacity.write,
    "kaleidoscope": other_csv.write_kaleidoscope,
    "birdnet": other_csv.write_birdnet,
    "dcase": other_csv.write_dcase,
    "csv": outlark_csv.write,
    "jsonl": exact_formats.write_json_lines,
    "parquet": exact_formats.write_parquet,
    "aoef": aoef.write,
}
#: Formats that hold version, model and settings themselves; CSV in its rows, if it has any.
_HOLD_ABOUT = ("csv", "jsonl", "parquet", "aoef")
#: Programs that open a recording from its path in the file.
OPENING = ("raven", "kaleidoscope")
#: What `example` writes.
ANNOTATIONS = (
    Annotation(
        start_s=0.5, end_s=0.75, label="song", recording="night.wav", verdict="known", score=2.5, runner_up="call",
        runner_up_score=1.25, reason="song 2.50 ≥ 2.00; next call 1.25", sample_rate=22050,
    ),
    Annotation(
        start_s=1.0, end_s=1.1, recording="night.wav", verdict="unknown", score=0.5, sample_rate=22050,
        reason="best score 0.50 (song) < 2.00",
    ),
)  # fmt: skip


class _Located(Collection[Annotation]):
    """Annotations, one at a time, with the path of their recording in place of its name."""

    def __init__(self, annotations: Collection[Annotation], paths: Mapping[str, str]) -> None:
        self._annotations, self._paths = annotations, paths

    def __iter__(self) -> Iterator[Annotation]:
        for annotation in self._annotations:
            name = annotation.recording or ""
            yield replace(annotation, recording=self._paths.get(name, name) or None)

    def __len__(self) -> int:
        return len(self._annotations)

    def __contains__(self, annotation: object) -> bool:
        return any(annotation == one for one in self)


def write_annotations(
    path: str | PathLike[str],
    annotations: Iterable[Annotation],
    *,
    format: str,
    about: About | None = None,
    durations: Mapping[str, float] | None = None,
    paths: Mapping[str, str] | None = None,
) -> None:
    """Write an annotation file, completely or not at all; equal annotations give equal bytes.

    Parameters
    ----------
    path : path of the file
        Its folder must exist; an existing file is replaced.
    annotations : iterable of Annotation
        Written in this order, one at a time: a collection may be larger than memory. docs/formats.md says what each
        format omits.
    format : str
        One of `FORMATS` that can be written.
    about : About, optional
        How the file came about; by default the version of outlark. Formats without room for it get a file beside:
        ``outlark.about.json`` for all files that are named as those of a run, else `path` + ``.about.json``.
    durations : mapping of str to float, optional
        Recording → seconds, in the order in which Raven opens the files: begin times then run over all of them. A
        selection table of several recordings needs them.
    paths : mapping of str to str, optional
        Recording → its full path, which Raven (Begin Path) and Kaleidoscope (INDIR) need to open it. By default they
        get the name.

    Raises
    ------
    AnnotationError
        If the file cannot be written, or an annotation lacks what the format needs.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     song = Annotation(start_s=0.5, end_s=0.75, label="song")
    ...     write_annotations(f"{folder}/a.labels.txt", [song], format="audacity")
    ...     Path(folder, "a.labels.txt").read_text()
    '0.5\\t0.75\\tsong\\n'
    """
    path = Path(path)
    if not format_named(format).writes:
        writing = [f.name for f in FORMATS.values() if f.writes]
        raise AnnotationError(f"format={format!r} is only read; write one of {writing}")
    about = About(version=__version__) if about is None else about
    listed = annotations if isinstance(annotations, Collection) else list(annotations)
    for annotation in listed:
        if not isinstance(annotation, Annotation):
            raise InputError(f"{annotation!r:.100} is not an Annotation; use Annotation.from_segment for segments")
    durations, paths = durations or {}, paths or {}
    if format in OPENING and paths:
        listed, durations = _Located(listed, paths), {paths.get(name, name): s for name, s in durations.items()}
    holds_about = format in _HOLD_ABOUT and (len(listed) > 0 or format != "csv")
    with written(path) as file:
        for piece in _WRITERS[format](listed, about, durations):
            file.write(piece)
        if not holds_about:
            write_about(path, about, format)
    if holds_about:
        with suppress(OSError):  # left by an earlier file of another format
            side_path(path).unlink()


def example(name: str) -> str | None:
    """The text of a small file; None for formats that are only read, are binary, or lack a package.

    >>> print(example("audacity"), end="")
    0.5	0.75	song 2.50
    1.0	1.1	unknown 0.50
    """
    format = FORMATS[name]
    if not format.writes or name == "parquet" or not is_ready(format):
        return None
    with TemporaryDirectory() as folder:
        path = Path(folder, f"night{format.suffix}")
        write_annotations(path, ANNOTATIONS, format=name)
        return path.read_text(encoding="utf-8")
