"""Three private intervals from the example table, and their picture: docs/earnings.png."""

from pathlib import Path

import confidp as cdp
from confidp.io.files import read_column
from confidp.plots.regions import plot_intervals

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "examples" / "data" / "cps_earnings.csv"


def main() -> None:
    """Release three intervals, at μ = 0.5 each, and draw them."""
    regions = {
        f"earnings in {year}": cdp.confidence_region(
            read_column(TABLE, f"earnings_{year}"),
            cdp.Mean(bounds=(0, 30_000), resolution=0.01),
            budget=cdp.GDP(0.5),
        )
        for year in (1974, 1975, 1978)
    }
    for label, region in regions.items():
        print(f"{label}: {region}")
    figure = plot_intervals(regions, xlabel="mean annual earnings, 1982 dollars")
    figure.savefig(ROOT / "docs" / "earnings.png", dpi=160)


if __name__ == "__main__":
    main()
