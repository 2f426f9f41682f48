"""What is stored, and whether this machine can compute the same numbers."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow

STORED = Path(__file__).parent / "stored"


def read(name):
    """Read a file of the evidence."""
    return json.loads((STORED / name).read_text())


def of_machine():
    """What digests depend on beside the package: last bits of NumPy's functions here, and the writers of files."""
    rng = np.random.default_rng(1)
    x, a = rng.random(1000), rng.random((8, 8))
    found = [
        np.exp(x),
        np.log(x),
        np.sqrt(x),
        x @ x,
        a @ a,
        np.linalg.solve(a, a[0]),
        rng.beta(2.0, 3.0, 100),
    ]
    found += [rng.normal(size=100), rng.gamma(0.5, size=100), np.arctan(x), np.power(x, 0.3)]
    numbers = sha256(b"".join(np.asarray(one).tobytes() for one in found)).hexdigest()[:16]
    return {"numbers": numbers, "pandas": pd.__version__, "pyarrow": pyarrow.__version__}
