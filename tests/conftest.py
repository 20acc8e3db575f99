"""What every test shares: one seeded generator, examples that may take as long as the machine needs, and Ctrl-C."""

import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests in the background (nohup, "make test &", some CI systems) are started with Ctrl-C ignored, and every process
    # would inherit that. A handler that does nothing is not inherited: programs under test can be interrupted.
    signal.signal(signal.SIGINT, lambda *_: None)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261115)
