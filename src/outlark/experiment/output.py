"""An experiment as files: numbers, tables, pictures, a report and the test clip to listen to."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

from outlark.annotations import Mark, write_table
from outlark.audio.sound import for_decoder
from outlark.commands.figures import save_figure as save
from outlark.experiment.methods import method
from outlark.experiment.protocol import draw
from outlark.experiment.report import write_report
from outlark.experiment.results import Results
from outlark.experiment.run import fitted
from outlark.experiment.stretch_picture import figure_1
from outlark.experiment.sweep import Sweep
from outlark.files.aside import written_aside

#: Drawn in Figure 1, as far as they were run, else the first method.
DRAWN = ("mddkm-paper", "mddkm")
CLIP = "test_clip.wav"


def write(
    folder: Path, results: Results, *, sweeps: Sequence[Sweep] = (), command: str | None = None
) -> dict[str, str]:
    """Write everything into a folder, which is made if needed; what each file is → its path.

    Parameters
    ----------
    folder : Path
    results : Results
    sweeps : sequence of Sweep
        Drawn in the report, and written to a CSV file each.
    command : str, optional
        That repeats it, for the report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [one.name for one in results.methods]
    files = {
        "every F": folder / "results.csv",
        "all numbers": folder / "results.json",
        "Figure 1": folder / "figure1.png",
        "report": folder / "report.html",
        "test clip": folder / CLIP,
        "its notes": folder / "test_clip.Table.1.selections.txt",
    }
    results.write_csv(files["every F"])
    results.write_json(files["all numbers"])
    drawn = draw(results.data, results.protocol, results.seeds[0])
    shown = [name for name in DRAWN if name in names] or names[:1]
    figure = figure_1(drawn, {method(name).title: fitted(method(name), drawn) for name in shown})
    save(figure, files["Figure 1"])
    write_report(files["report"], results, sweeps=sweeps, figure=figure, ours=results.ours, command=command)
    with written_aside(files["test clip"]) as aside:
        soundfile.write(
            for_decoder(aside), drawn.audio.astype(np.float32), drawn.sample_rate, format="WAV", subtype="PCM_16"
        )
    marks = [Mark(start_s=n.start_s, end_s=n.end_s, label=n.label, recording=CLIP) for n in drawn.truth]
    write_table(files["its notes"], marks, format="raven")
    for one in sweeps:
        files[f"sweep, {one.name}"] = folder / f"sweep_{one.name}.csv"
        one.write_csv(files[f"sweep, {one.name}"])
    return {what: str(path) for what, path in files.items()}
