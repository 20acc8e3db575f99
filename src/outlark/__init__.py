"""Finds the notes you know and tells you which ones you don't.

outlark describes each class by its kernel Mahalanobis distance (MDD-KM), all classes on one scale, and says *known*,
*ambiguous* or *unknown*. Start with `MDDKM`; `PKNN` and `OCCGP` are the methods it is compared with, `RejectOption`
gives any other classifier a way to say "none of these", and `outlark.metrics` measures all of them alike.
"""

from outlark.errors import InputError, OutlarkError
from outlark.estimators.hlds import HLDS
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.occgp import OCCGP
from outlark.estimators.pknn import PKNN
from outlark.estimators.reject import RejectOption
from outlark.version import __version__

__all__ = ["HLDS", "MDDKM", "OCCGP", "PKNN", "InputError", "OutlarkError", "RejectOption", "__version__"]
