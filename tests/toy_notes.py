"""Toy notes for the tests: a note is a short walk of samples along the path of its class."""

import numpy as np


def note(rng: np.random.Generator, c: int, n: int = 12, d: int = 4, spread: float = 0.25) -> np.ndarray:
    """One note of class c, shape (n, d): a smooth path that every note of the class follows in its own way.

    The larger `spread`, the more the notes of a class differ and the more classes overlap.
    """
    t = np.linspace(0, 1, n)[:, np.newaxis]
    direction = np.random.default_rng(100 + c).normal(size=(3, d))
    path = 2.0 * direction[0] + np.sin(np.pi * t) * direction[1] + t * direction[2]
    return path + spread * rng.normal(size=d) + 0.08 * rng.normal(size=(n, d))


def notes(
    rng: np.random.Generator, counts: list[int], n: int = 12, d: int = 4, spread: float = 0.25
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, groups of counts[c] notes for each class c, note ids 0, 1, 2 …"""
    X, y, groups = [], [], []
    for c, count in enumerate(counts):
        for _ in range(count):
            X.append(note(rng, c, n, d, spread))
            y += [c] * n
            groups += [len(X) - 1] * n
    return np.concatenate(X), np.array(y), np.array(groups)
