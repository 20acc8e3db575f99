"""`outlark inspect`, `doctor` and `plot`: what is in a file, how good a model is, and what it makes of a recording."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from outlark.cli import options, thresholds
from outlark.cli.terminal import ERROR, UNREADABLE, answer, finish, say, say_all
from outlark.commands import LINES_SHOWN as LISTED
from outlark.commands import on_refused
from outlark.errors import OutlarkError
from outlark.plain_text import number_of

#: What people call the kinds of files; JSON has the keys.
KINDS = {"table": "annotation file"}


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@options.reading
@options.reporting
def command(paths: tuple[str, ...], **given: Any) -> None:
    """Describe each PATH: a model, a recording, an annotation file, or stored scores.

    The kind of file is recognised from its content. For a model: classes, examples, durations, thresholds and settings.
    For a recording, which is decoded to its end: format, true duration, level, clipping, digital silence, and start
    time. For an annotation file: its format, labels and times, and which of its recordings were found.
    """
    from outlark.audio.sound_files import SoundFiles
    from outlark.commands.inspect import content_of

    sounds = SoundFiles(given["audio"])
    found, failures = [], []
    for path in paths:
        try:
            content = content_of(path, sounds, label_column=given["label_column"])
        except OutlarkError as error:
            if len(paths) == 1:
                raise
            failures.append({"path": path, "message": str(error)})
            say(error, err=True)
            continue
        found.append(content)
        if not given["as_json"]:
            _show(content, blank=len(found) > 1)
        say_all(on_refused(content.get("refused", [])))
    if given["as_json"]:
        answer({"files": found, "failed": len(failures), "failures": failures})
    refused = any(content.get("refused") for content in found)
    click.get_current_context().exit(UNREADABLE if failures or refused else 0)


def _show(content: Mapping[str, Any], blank: bool) -> None:
    if blank:
        say()
    kind = KINDS.get(content["kind"], content["kind"])
    say(f"{content['path']}: {kind}, {number_of(content['size_bytes'], 'byte')}")
    lines = {"model": _model, "scores": _scores, "recording": _recording, "table": _table}[content["kind"]]
    for name, text in lines(content):
        say(f"  {name:<11} {text}")


def _model(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "sha256", content["sha256"]
    yield "made with", _versions(content)
    yield from _column("made from", [_ancestor(ancestor) for ancestor in reversed(content["lineage"])])
    yield "sample rate", f"{content['sample_rate']} Hz; other rates are resampled"
    yield "features", content["front_end"]["words"]
    yield from (("", sentence) for sentence in content["front_end"]["why"])
    for kind in content["classes"]:
        lengths = f"{kind['shortest_s']:.3f} to {kind['longest_s']:.3f} s"
        examples = number_of(len(kind["examples"]), "example")
        yield "class", f"{kind['label']}: {examples}, {lengths}, threshold {_threshold(kind)}"
        yield from (("", f"  {line}") for line in _listed([_example(note) for note in kind["examples"]]))
        if kind["negatives"]:
            yield "", f"  {number_of(len(kind['negatives']), 'negative')} (not {kind['label']}):"
            negatives = [f"{_example(note)}, score {note['score']:.3f}" for note in kind["negatives"]]
            yield from (("", f"    {line}") for line in _listed(negatives))
    stage = content["second_stage"]
    if stage is not None:
        embedding = stage["embedding"]
        yield "embedding", f"{embedding['version']} ({embedding['name']}), from a score of {stage['threshold']:g} on"
    for part in ("front_end", "class_model", "decisions"):
        settings = ", ".join(f"{name} {_plain(value)}" for name, value in content[part]["settings"].items())
        yield part.replace("_", " "), f"{content[part]['name']}: {settings}"


def _threshold(kind: Mapping[str, Any]) -> str:
    """The threshold of a class and its source."""
    from outlark.detection.thresholds import EXAMPLES, SOURCES

    numbers = (kind["threshold"], kind["trained_threshold"])
    now, trained = ("none" if number is None else f"{number:.3f}" for number in numbers)
    source = kind["threshold_from"]
    return f"{now} {SOURCES[source]}" + ("" if source == EXAMPLES else f", {trained} {SOURCES[EXAMPLES]}")


def _scores(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "recording", f"{content['recording']}, {_length(content['duration_s'])}, {content['sample_rate']} Hz"
    yield "model", f"sha256 {content['model_sha256']}"
    yield "made with", _versions(content)
    yield "classes", ", ".join(map(str, content["classes"]))


def _recording(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "format", content["what"]
    channels = f"{content['channels']} channel{'s'[: content['channels'] > 1]}"
    yield "sound", f"{content['sample_rate']} Hz, {channels}, {_length(content['duration_s'])}"
    if content["partial"]:
        yield "partial", content["partial"]
    elif not content["samples"]:
        yield "damaged", "it holds no sound, only a header"
    elif (
        content["announced_s"] is None
        or abs(content["announced_s"] - content["duration_s"]) > 0.5 / content["sample_rate"]
    ):
        stated = "no duration" if content["announced_s"] is None else f"a duration of {_length(content['announced_s'])}"
        yield "", f"the header states {stated}, which differs from what was decoded"
    if content["damaged"]:
        yield "damaged", content["damaged"]
    if content["not_finite"]:
        yield "damaged", f"{content['not_finite']} samples are NaN or infinite"
    yield "peak", f"{_levels(content['peak_db'])} dB re full scale"
    yield "level", f"{_levels(content['rms_db'])} dB re full scale (RMS)"
    if max(map(abs, content["mean"])) > 0.01:
        yield "offset", f"the mean is {', '.join(f'{mean:.3f}' for mean in content['mean'])} of full scale, not 0"
    yield "clipped", f"{_share(content['clipped'])} of the samples are at full scale"
    yield "silence", f"{_share(content['silent'])} of the recording is digital silence"
    yield from _column("remarks", [*content["remarks"], *content["quality"]])
    if content["samples"] and not content["counts"]:
        yield "effort", "outlark summary does not count it: half of it or more cannot be listened to"
    clock = content["clock"]
    if clock is None:
        yield "began", "unknown: no GUANO metadata, no recorder comment, no time in the file name"
        return
    zone = "" if clock["zone_told"] else ", time zone unknown"
    yield "began", f"{clock['began'].replace('T', ' ')}{zone} (from the {clock['source']})"
    yield from (("", difference) for difference in clock["differences"])
    if clock["expansion"] != 1.0:
        yield "", f"slowed down by {clock['expansion']:g}"


def _table(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "format", f"{content['format']} ({content['what']})"
    times = f", from {content['start_s']:.3f} to {content['end_s']:.3f} s" if content["annotations"] else ""
    yield "annotations", f"{content['annotations']}{times}"
    counts = [f"{label}: {n}" for label, n in content["labels"].items()]
    if content["blank"]:
        counts.append(f"without a label: {content['blank']}")
    yield from _column("labels", counts)
    if content["verdicts"]:
        yield "verdicts", ", ".join(f"{verdict}: {n}" for verdict, n in content["verdicts"].items())
    if content["points"]:
        yield "points", f"{number_of(content['points'], 'annotation')} without a duration"
    recordings = [
        f"{one['name'] or 'named like the file'}: {one['path'] or 'not found'}" for one in content["recordings"]
    ]
    yield from _column("recordings", recordings)
    about = content["about"]
    if about:
        yield "made with", f"outlark {about.get('version')}, model {about.get('model_sha256')}"
    yield from _column("remarks", content["remarks"])


def _column(name: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from zip([name, *[""] * len(lines)], _listed(lines), strict=False)


def _listed(lines: Sequence[str]) -> list[str]:
    more = [f"… and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return [*lines[:LISTED], *more]


def _example(note: Mapping[str, Any]) -> str:
    name = note["name"] or f"recording {note['recording']}"
    return f"{name}, {note['start_s']:.3f} to {note['end_s']:.3f} s"


def _ancestor(model: Mapping[str, Any]) -> str:
    """A model that this one was trained from."""
    added = f"{number_of(model['added'], 'example')} and {number_of(model['negatives'], 'negative')} added"
    return f"{model['name']} (sha256 {model['sha256']}): {number_of(model['kept'], 'example')} kept, {added}"


def _versions(content: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(content["versions"].items()))


def _plain(value: Any) -> str:
    """A setting as the file stores it, which marks tuples."""
    if isinstance(value, dict) and list(value) == ["tuple"]:
        value = value["tuple"]
    return "none" if value is None else str(value)


def _length(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds // 60 % 60):02}:{seconds % 60:06.3f}"


def _levels(levels: Sequence[float | None]) -> str:
    return ", ".join("-∞" if level is None else f"{level:.1f}" for level in levels)


def _share(share: float) -> str:
    return "none" if share == 0 else f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.3g} %"


# ---------------------------------------------------------------------- doctor


@click.command()
@click.argument("model", type=click.Path())
@click.option("--strict", is_flag=True, help="End with exit code 1 if there are problems.")
@options.reporting
def doctor(model: str, strict: bool, **given: Any) -> None:
    """Look for mistakes that a MODEL is likely to make.

    The model hears silence, noise, hum, clicks, tones and whistles, none of which is a note. Each training note is
    judged by what the others say about it. The training set and the settings are checked. No recordings are needed.
    """
    from outlark.commands.doctor import examine_model

    detector = thresholds.read_model(model)
    if not given["quiet"]:
        say("testing the model on sounds that are not notes …", err=True)
    found = examine_model(model, detector)
    finish(found, given, ERROR if strict and found.problems else 0)


# ------------------------------------------------------------------------ plot


def time(value: str) -> float:
    """The type of a time in a recording: 83.5, 83.5s, 1:23.5 or 1:02:03.5."""
    found = re.fullmatch(r"(?:(?:(\d+):)?([0-5]?\d):(?=[0-5]?\d(?!\d)))?(\d+\.?\d*|\.\d+)\s*s?", value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a time in a recording; give seconds, or 1:23.5, or 1:02:03.5")
    hours, minutes, seconds = found.groups(default="0")
    return 3600.0 * float(hours) + 60.0 * float(minutes) + float(seconds)


@click.command()
@click.argument("model", type=click.Path())
@click.argument("recording", type=click.Path())
@click.option("--output", "-o", required=True, type=click.Path(), help="Figure to write: .png, .svg or .pdf.")
@click.option("--start", type=time, help="Start of the excerpt, such as 83.5 or 1:23.5.")
@click.option("--end", type=time, help="End of the excerpt.")
@click.option("--truth", type=click.Path(), help="Annotation file with the true notes, drawn below the detections.")
@options.channel
@click.option("--title", help="Title of the figure. Default: the name of the recording.")
@click.option("--label-column", metavar="NAME", help="Column of --truth that holds the labels. Default: guessed.")
@thresholds.for_this_run
@options.decisions
@options.reporting
def plot(recording: str, output: str, **given: Any) -> None:
    """Plot an excerpt of a RECORDING with the scores and decisions of a MODEL.

    From top to bottom: the spectrogram; the score of each class, with the leading class in bold and thresholds dotted;
    the detected notes, and the true ones if you give them. Without --start and --end, the excerpt is ten seconds around
    the first note.
    """
    from outlark.annotations import read_annotations
    from outlark.commands.figures import save_figure
    from outlark.commands.plot.figure import annotations_of_recording, draw_excerpt, shown_excerpt

    detector, _ = thresholds.detector_of(given)
    table = None if given["truth"] is None else read_annotations(given["truth"], label_column=given["label_column"])
    truth = [] if table is None else annotations_of_recording(table, recording)
    channel = options.channel_index(given["channel"])
    start, end, why = shown_excerpt(detector, recording, given["start"], given["end"], channel=channel)
    figure = draw_excerpt(detector, recording, start, end, channel=channel, truth=truth, title=given["title"])
    save_figure(figure, output)
    if not given["quiet"]:
        say(f"{output}: {start:.3f} to {end:.3f} s of {recording} ({why})", err=True)
    refused = [] if table is None else table.refused
    say_all(on_refused(refused))
    if given["as_json"]:
        answer({"figure": output, "recording": recording, "start_s": start, "end_s": end, "why": why})
    click.get_current_context().exit(UNREADABLE if refused else 0)
