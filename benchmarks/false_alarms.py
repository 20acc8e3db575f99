"""False alarms a minute on ten minutes of foreign sound: a garden, a night sky, forest, and the song of other birds.

A model of each set, with five examples of each class, hears recordings of all the other sets and long recordings that
belong to none; whatever it calls known or ambiguous there is a false alarm. Flight calls of warblers are in the night
sky, so that some of what their models find there is right.

    python benchmarks/false_alarms.py                                # every set, three draws
    python benchmarks/false_alarms.py --lengths    # scores reached by accident

With --lengths: the score that a class reaches by accident twice in ten minutes of foreign sound, for every class of one
kind of note, against the logarithm of how long its notes last; the slope is
PER_LENGTH of `outlark.detection.thresholds`. It is fitted once for all sets, and once without each set.
"""

import argparse
import sys
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from joblib import Parallel, delayed
from real_note_tasks import NOISE, TASKS, Recording, _annotated, data_folder, draw
from real_notes import ROWS, aligned_table, mean_text, versions_text
from threadpoolctl import threadpool_limits

from outlark.audio.recording import read

#: Seconds of sound in all, and from each set.
ALL_S, OF_A_SET_S = 600.0, 90.0
SONG = ("zebra-finch-syllables", "bengalese-finch-syllables", "canary-syllables", "field-neotropical-songs",
        "screaming-piha-field", "field-recordings-small")  # fmt: skip
SETS = [name for name in TASKS if not name.startswith("zebra-finch-in-noise")]


def foreign(task: str) -> list[Recording]:
    """Ten minutes that hold none of the classes of the task."""
    long = [Recording(*read(data_folder("long-audio-machine-labels") / name), []) for name in NOISE]
    found, left = list(long), ALL_S - sum(len(r.samples) / r.rate for r in long)
    for name in (name for name in SONG if name.split("-")[0] != task.split("-")[0]):
        of_set = OF_A_SET_S
        for recording in _annotated(name).values():
            seconds = min(len(recording.samples) / recording.rate, of_set, left)
            if seconds > 1.0:
                found.append(Recording(recording.samples[: int(seconds * recording.rate)], recording.rate, []))
                of_set, left = of_set - seconds, left - seconds
    return found


def run_draw(task: str, seed: int, n_examples: int, rows: Sequence[str]) -> list[float]:
    """False alarms a minute of each row."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        drawn, heard, found = draw(task, seed, n_examples), foreign(task), []
        minutes = sum(len(r.samples) / r.rate for r in heard) / 60
        for row in rows:
            detector = drawn.fit(ROWS[row][1]())
            segments = [s for r in heard for s in detector.detect(r.samples, r.rate)]
            found.append(sum(s.verdict in ("known", "ambiguous") for s in segments) / minutes)
    return found


#: Sets whose classes are each of one kind of note.
ONE_KIND = [name for name in SETS if name not in ("finch-segmentation", "screaming-piha-field", "clo-flight-calls")]
#: The score that is reached so often in all of the foreign sound.
BY_ACCIDENT = 2


def reached_by_accident(task: str, seed: int, n_examples: int) -> list[tuple[float, float]]:
    """For each class ln of the median length of its examples, in seconds, and its `BY_ACCIDENT`-th highest score."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        drawn = draw(task, seed, n_examples)
        detector = drawn.fit(ROWS["default"][1]())
        peaks = [detector.peaks(r.samples, r.rate) for r in foreign(task)]
        found = []
        for c, label in enumerate(detector.classes_.tolist()):
            scores = np.sort(np.concatenate([of_recording[c] for of_recording in peaks]))[::-1]
            last_s = [s.duration_s for r in drawn.train for s in r.segments if s.label == label]
            if len(scores) >= BY_ACCIDENT:  # else it lies below what counts as a peak
                found.append((float(np.log(np.median(last_s))), float(scores[BY_ACCIDENT - 1])))
        return found


def lengths_table(found: Mapping[str, Sequence[tuple[float, float]]]) -> list[list[str]]:
    """The line through all points, and through those of all sets but one."""
    table = [["score reached by accident", "classes", "at 1 s", "per e-fold of length"]]
    for name in (None, *found):
        points = np.array([point for of, rows in found.items() for point in rows if of != name])
        slope, at_one = np.polyfit(*points.T, 1)
        title = "all sets" if name is None else f"without {name}"
        table.append([title, str(len(points)), f"{at_one:.3f}", f"{slope:+.3f}"])
    return table


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(TASKS), default=SETS, metavar="SET")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=["default", "templates"], metavar="ROW")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--examples", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--lengths", action="store_true", help="what is reached by accident, by the length of the notes"
    )
    options = parser.parse_args(arguments)
    print(" ".join(["python benchmarks/false_alarms.py", *arguments]))
    print(versions_text(), end="\n\n")
    if options.lengths:
        sets = [name for name in options.sets if name in ONE_KIND]
        jobs = [(name, seed, options.examples) for name in sets for seed in range(options.draws)]
        rows = Parallel(n_jobs=options.jobs)(delayed(reached_by_accident)(*job) for job in jobs)
        of_sets = {
            name: [p for job, points in zip(jobs, rows, strict=True) if job[0] == name for p in points] for name in sets
        }
        print(aligned_table(lengths_table(of_sets)))
        return
    jobs = [(name, seed, options.examples, options.rows) for name in options.sets for seed in range(options.draws)]
    found = np.array(Parallel(n_jobs=options.jobs)(delayed(run_draw)(*job) for job in jobs))
    by_set = found.reshape(len(options.sets), options.draws, len(options.rows))
    table = [["false alarms a minute", *(ROWS[row][0] for row in options.rows)]]
    for name, of_set in zip(options.sets, by_set, strict=True):
        table.append([name, *(mean_text(column, 2) for column in of_set.T)])
    table.append(["all sets", *(mean_text(column, 2) for column in found.T)])
    print(aligned_table(table))


if __name__ == "__main__":
    main(sys.argv[1:])
