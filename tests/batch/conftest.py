"""A model and recordings that all tests of runs share."""

from pathlib import Path

import pytest

from tests.recordings_on_disk import save_model, save_recordings


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "titmouse.outlark")


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve; not to be changed."""
    return save_recordings(tmp_path_factory.mktemp("recordings"), 12)
