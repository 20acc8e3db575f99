"""What every test shares: one seeded generator, examples that may take as long as the machine needs, and Ctrl-C."""

import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

for name in ("SIGINT", "SIGHUP", "SIGTERM"):
    # Tests in the background (nohup, "make test &", some CI systems) are started with Ctrl-C or the end of the terminal
    # ignored, and every process would inherit that. A handler that does nothing is not inherited: programs under test
    # can be interrupted.
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261115)
