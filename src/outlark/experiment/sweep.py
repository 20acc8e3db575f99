"""The experiment at several values of one setting: noise, training notes, silence, wrong labels, unequal classes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from types import MappingProxyType
from typing import Any

from outlark.errors import InputError
from outlark.experiment.dataset import Dataset
from outlark.experiment.kept import Kept
from outlark.experiment.protocol import Protocol, draw
from outlark.experiment.results import Results, write_rows
from outlark.experiment.run import run


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting of the protocol that can be swept.

    Attributes
    ----------
    parameter : str
        Of `Protocol`.
    title, unit : str
    values : tuple
        By default.
    base : mapping
        Other settings that go with it.
    """

    parameter: str
    title: str
    unit: str
    values: tuple[Any, ...]
    base: Mapping[str, Any] = field(default_factory=dict)


#: Name on the command line → what is swept.
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "snr": Setting(
            parameter="snr_db",
            title="signal to noise ratio",
            unit="dB",
            values=(40.0, 30.0, 20.0, 15.0, 10.0, 5.0, 0.0),
        ),
        "shots": Setting(
            parameter="n_train", title="training notes of each class", unit="", values=(1, 2, 3, 4, 5, 6, 8, 10)
        ),
        "gap": Setting(
            parameter="gap_s", title="silence between notes", unit="s", values=(0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
        ),
        "contamination": Setting(
            parameter="contamination",
            title="wrong notes among 8 training notes of each class",
            unit="",
            values=(0, 1, 2, 3),
            base={"n_train": 8},
        ),
        "imbalance": Setting(
            parameter="imbalance",
            title="training notes of the first class, times those of the others",
            unit="",
            values=(1, 2, 3, 5, 8),
        ),
    }
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """The results at each value of a setting."""

    name: str
    title: str
    unit: str
    values: tuple[Any, ...]
    results: tuple[Results, ...]

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Every F of every seed at every value."""
        found = zip(self.values, self.results, strict=True)
        rows = ((value, *row) for value, results in found for row in results.rows())
        write_rows(path, [SETTINGS[self.name].parameter, "seed", "method", "level", "category", "f"], rows)


def sweep(
    name: str,
    data: Dataset,
    protocol: Protocol | None = None,
    *,
    methods: Sequence[str],
    seeds: Sequence[int],
    values: Sequence[Any] | None = None,
    n_jobs: int = 1,
    watch: Callable[[int, int], None] | None = None,
    kept: Kept | None = None,
) -> Sweep:
    """Run the experiment at each value of one of `SETTINGS`, everything else as in `protocol`.

    Values for which the data set has not enough notes are left out.

    Raises
    ------
    InputError
        When it has not enough notes for any value.
    """
    base, chosen = possible_values(name, data, protocol, seeds, values)
    setting = SETTINGS[name]
    found = []
    for number, value in enumerate(chosen):

        def tell(done: int, total: int, before: int = number) -> None:
            if watch is not None:
                watch(before * total + done, len(chosen) * total)

        changed = replace(base, **{setting.parameter: value})
        found.append(run(data, changed, methods=methods, seeds=seeds, n_jobs=n_jobs, watch=tell, kept=kept))
    return Sweep(name=name, title=setting.title, unit=setting.unit, values=chosen, results=tuple(found))


def possible_values(
    name: str,
    data: Dataset,
    protocol: Protocol | None,
    seeds: Sequence[int],
    values: Sequence[Any] | None = None,
) -> tuple[Protocol, tuple[Any, ...]]:
    """The protocol of a sweep, and the values for which there are enough notes.

    Raises
    ------
    InputError
        When there are none, or no such sweep.
    """
    if name not in SETTINGS:
        raise InputError(f"{name!r} cannot be swept; there are {', '.join(SETTINGS)}")
    setting = SETTINGS[name]
    base = replace(Protocol() if protocol is None else protocol, **setting.base)
    asked = setting.values if values is None else values
    chosen = tuple(value for value in asked if _can_be_drawn(data, base, setting, value, seeds))
    if not chosen:
        with_base = f", which trains on {base.n_train} notes of each class" if setting.base else ""
        raise InputError(f"{data.name} has not enough notes for any value of the sweep over {name}{with_base}")
    return base, chosen


def _can_be_drawn(data: Dataset, base: Protocol, setting: Setting, value: Any, seeds: Sequence[int]) -> bool:
    try:
        for seed in seeds:
            draw(data, replace(base, **{setting.parameter: value}), seed)
    except InputError:
        return False
    return True
