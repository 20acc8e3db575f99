"""What the last digits of the results depend on besides the recording, the model and the settings.

The same processor and libraries give the same bytes. Another kernel of the linear algebra, which is chosen by the
processor, adds in another order, and another release of a library may do anything else; scores then differ in their
last digits, and now and then an edge or a decision with them.
"""

import platform
from functools import cache


@cache
def arithmetic() -> dict[str, str]:
    """Machine, kernels and libraries of this process, in words.

    >>> sorted(arithmetic())
    ['blas', 'machine', 'numpy', 'scipy', 'simd', 'soundfile', 'soxr']
    """
    import numpy
    import scipy
    import soundfile
    import soxr
    from threadpoolctl import threadpool_info

    blas = [one for one in threadpool_info() if one.get("user_api") == "blas"]
    # scipy brings one of its own, which follows the same rule and may not be loaded yet
    blas = [one for one in blas if "numpy" in one.get("filepath", "")] or blas
    simd = numpy.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
    return {
        "machine": platform.machine(),
        "blas": ", ".join(sorted(set(map(_kernel, blas)))) or "unknown",
        "simd": " ".join(simd) or "baseline",
        **{library.__name__: library.__version__ for library in (numpy, scipy, soundfile, soxr)},
    }


def _kernel(library: dict[str, str]) -> str:
    parts = (library.get("internal_api"), library.get("version"), library.get("architecture"))
    return " ".join(str(part) for part in parts if part)
