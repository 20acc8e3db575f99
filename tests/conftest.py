"""What every test shares: one seeded generator, and examples that may take as long as the machine needs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261115)
