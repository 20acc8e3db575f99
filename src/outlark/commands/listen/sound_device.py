"""Sound devices of this computer, through the package sounddevice, which is not always there."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

from outlark.commands.listen.listening import Inlet
from outlark.errors import AudioError

#: The name that stands for the device that the system would take.
USUAL = "default"


def _sounddevice() -> Any:
    try:
        return import_module("sounddevice")
    except ImportError:
        raise AudioError(
            "sound devices need the package sounddevice, which is not there; install it with: pip install sounddevice. "
            "Or pipe raw sound in, as in: arecord -t raw -f S16_LE -r 22050 | outlark listen MODEL --rate 22050"
        ) from None
    except OSError as error:
        raise AudioError(
            f"the package sounddevice cannot find PortAudio ({error}); install that, as in: apt install libportaudio2"
        ) from None


def devices() -> str:
    """A list of the sound devices, as text.

    Raises
    ------
    AudioError
        When the package sounddevice, or the library under it, is missing.
    """
    return str(_sounddevice().query_devices())


def usual_rate(device: str) -> int:
    """The sample rate at which a device works by itself."""
    found = _asked(device, "asked for its rate", lambda library, name: library.query_devices(name, "input"))
    return round(found["default_samplerate"])


@contextmanager
def recorded(inlet: Inlet, device: str, *, sample_rate: int, channels: int, kind: str) -> Iterator[list[str]]:
    """While this lasts, what the device hears goes to the inlet as raw sound.

    Parameters
    ----------
    inlet : Inlet
    device : str
        A name, part of one, or a number, as `devices` lists them; or "default".
    sample_rate, channels : int
    kind : str
        See `PCM`.

    Yields
    ------
    list of str
        What went wrong so far, such as samples that were lost, in words.
    """
    troubles: list[str] = []

    def heard(sound: Any, frames: int, time: Any, status: Any) -> None:
        if status and str(status) not in troubles:
            troubles.append(str(status))
        inlet.put(bytes(sound))

    def opened(library: Any, name: str | int | None) -> Any:
        stream = library.RawInputStream(
            sample_rate, device=name, channels=channels, dtype=kind, callback=heard, finished_callback=inlet.end
        )
        stream.start()
        return stream

    with closing(_asked(device, f"opened at {sample_rate} Hz with {channels} channels of {kind}", opened)):
        yield troubles


def _asked(device: str, done: str, ask: Any) -> Any:
    library = _sounddevice()
    name = None if device == USUAL else int(device) if device.isdecimal() else device
    try:
        return ask(library, name)
    except (library.PortAudioError, ValueError) as error:
        raise AudioError(
            f"the sound device {device!r} cannot be {done} ({error}); 'outlark listen --list-devices' lists what there "
            "is, and --rate, --channels and --dtype may have to be others"
        ) from None
