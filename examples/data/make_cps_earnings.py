"""Make cps_earnings.csv from the `cps_mixtape` table of the PyPI package causaldata 0.1.5.

Run once, with that package and pandas installed::

    pip install causaldata==0.1.5
    python examples/data/make_cps_earnings.py
"""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

COLUMNS = {
    "re74": "earnings_1974",
    "re75": "earnings_1975",
    "re78": "earnings_1978",
    "age": "age",
    "educ": "schooling_years",
}


def main() -> None:
    """Write the table beside this script."""
    spec = find_spec("causaldata")
    if spec is None or spec.origin is None:
        raise SystemExit("install causaldata==0.1.5 first")
    source = Path(spec.origin).parent / "cps_mixtape" / "cps_mixtape.dta"
    table = pd.read_stata(source)[list(COLUMNS)].rename(columns=COLUMNS)
    earnings = [name for name in COLUMNS.values() if name.startswith("earnings")]
    # Stored as 32-bit floats: the cents are what was meant.
    table[earnings] = table[earnings].astype("float64").round(2)
    table.to_csv(Path(__file__).with_name("cps_earnings.csv"), index=False)


if __name__ == "__main__":
    main()
