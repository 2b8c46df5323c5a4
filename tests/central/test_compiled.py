"""Who needs no compiled loop doesn't wait for them, and gets the same without."""

import subprocess
import sys
from importlib.util import find_spec

from confidp.central import kernels
from confidp.central.compiled import _KERNELS, if_loaded

MEAN = """
import sys
import numpy as np
from confidp import GDP, Mean, confidence_region
from confidp.central.compiled import if_loaded
region = confidence_region(np.arange(100.0), Mean((0, 100)), budget=GDP(1.0), rng=3)
assert if_loaded() is None and "numba" not in sys.modules
import confidp.central.kernels as kernels
assert if_loaded() is kernels
assert region == confidence_region(np.arange(100.0), Mean((0, 100)), budget=GDP(1.0), rng=3)
print("same")
"""


def test_a_mean_loads_no_numba_and_is_the_same_once_something_else_has():
    run = subprocess.run([sys.executable, "-c", MEAN], check=True, capture_output=True, text=True)
    assert run.stdout == "same\n"


def test_the_loops_are_looked_for_by_their_name():
    assert find_spec(_KERNELS) is kernels.__spec__ or find_spec(_KERNELS).name == kernels.__name__
    assert if_loaded() is kernels
