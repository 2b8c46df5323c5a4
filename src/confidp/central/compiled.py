"""The compiled loops, for work that NumPy does nearly as fast: used if they are there anyway."""

from __future__ import annotations

import sys
from types import ModuleType

_KERNELS = "confidp.central.kernels"


def if_loaded() -> ModuleType | None:
    """Return the module of compiled loops if something in this process has needed it, else None.

    Its import takes half a second, and many more to compile after an installation. What one pass
    over the data can save, a few nanoseconds a value, isn't worth that. Either way gives the same
    results to the last bit.
    """
    if _KERNELS not in sys.modules:
        return None
    from confidp.central import kernels  # waits while another thread is at it

    return kernels
