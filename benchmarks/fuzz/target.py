"""What a target is, and what it may expect."""

import random
from abc import ABC, abstractmethod
from pathlib import Path


class Finding(Exception):
    """Something that must not happen, other than an exception."""


def expect(true: bool, otherwise: str) -> None:
    """A finding unless it is true."""
    if not true:
        raise Finding(otherwise)


class Target(ABC):
    """Something that reads what others wrote, with a scratch folder of its own."""

    name: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Small real inputs."""

    @abstractmethod
    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        """An input with one change."""

    @abstractmethod
    def run(self, data: bytes) -> str:
        """The outcome; an exception other than those that are expected is a finding."""

    def close(self) -> None:  # noqa: B027
        """Give back what was opened; the target cannot be used any more."""
