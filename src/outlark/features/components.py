"""Principal components, and how much they leave out.

Patches have hundreds of numbers that go together; a few components hold most of what differs between training notes. A
sound that is like none of them may lie elsewhere altogether. So the length of what the components leave out is kept as
well: such a sound stays as far from the training notes as it is.
"""

import numpy as np

from outlark.features.spectrum import ROUNDING


def principal_components(X: np.ndarray, n_components: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean (d,) and the directions (k, d) in which X (n, d) varies most, k ≤ n_components: those in which it does.

    The entry of a direction that is largest in size is positive.

    >>> mean, components = principal_components(np.array([[0.0, 1.0], [0.0, 3.0]]), n_components=2)
    >>> mean, components
    (array([0., 2.]), array([[0., 1.]]))
    """
    mean = X.mean(axis=0)
    _, sizes, directions = np.linalg.svd(X - mean, full_matrices=False)
    varies = sizes > ROUNDING * sizes.max(initial=0.0)
    components = directions[:n_components][varies[:n_components]]
    largest = np.abs(components).argmax(axis=1)
    return mean, components * np.sign(components[np.arange(len(components)), largest])[:, np.newaxis]


def projected(patches: np.ndarray, mean: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Patches (T, d) as their components, and the length of what these leave out, (T, k + 1).

    >>> projected(np.array([[3.0, 0.0, 4.0]]), np.zeros(3), np.array([[1.0, 0.0, 0.0]]))
    array([[3., 4.]])
    """
    centred = patches - mean
    inside = centred @ components.T
    beyond = np.linalg.norm(centred - inside @ components, axis=1)
    return np.column_stack([inside, np.where(beyond > ROUNDING, beyond, 0.0)])
