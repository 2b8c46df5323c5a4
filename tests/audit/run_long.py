"""Run every audit with more runs than the tests do, and write claim beside evidence.

    python tests/audit/run_long.py [times] [docs/audits.md]

Each line attacks a mechanism on its worst neighbours, as in the test module of its name, and gives
a lower bound on the μ or ε that it really has. A sound mechanism's bound exceeds its claim with
probability at most 1e-6 a line; a bound near the claim says that the attack is a good one. What is
broken on purpose has to exceed it. The command fails where one of the two doesn't hold.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from audit import (
    test_blbquant,
    test_cr_gs,
    test_cr_ss,
    test_delta_method,
    test_half_centred,
    test_linearised,
    test_local,
    test_private_variance,
    test_rank_inversion,
)
from confidp import Median


@dataclass(frozen=True)
class Audit:
    """One attack: what is claimed, and what it finds when run `times` as often as in the tests."""

    name: str
    claim: float
    unit: str
    attack: Callable[[], float]
    broken: bool = False


def audits(times: int) -> Iterator[Audit]:
    """Set every module's number of runs and yield its attacks."""
    for module in (
        test_cr_gs,
        test_delta_method,
        test_half_centred,
        test_linearised,
        test_private_variance,
        test_rank_inversion,
    ):
        module.RUNS *= times
    test_local.DRAWS *= times

    for sampling in ("without_replacement", "with_replacement"):
        plan = test_cr_gs.plan_for(sampling, 1.0)
        kappa = plan.resampling.multiplicity
        name = f"CR-GS as published, {sampling.replace('_', ' ')}"
        yield Audit(name, 1.0, "μ", lambda p=plan, k=kappa: test_cr_gs.leak(p, times=k))
    yield Audit("CR-GS, noise-aware", 3.0, "μ", test_cr_gs.noise_aware_leak)
    yield Audit("CR-GS, lower bound", 3.0, "μ", lambda: test_cr_gs.noise_aware_leak(side="greater"))
    for calibration in ("published", "noise-aware"):
        yield Audit(
            f"CR-SS, {calibration}", 3.0 + test_cr_ss.SLACK, "μ",
            lambda c=calibration: test_cr_ss.cr_ss_leak(
                Median(bounds=(0, 1)), mu=3.0, runs=600 * times, calibration=c
            ),
        )  # fmt: skip
    ptr = test_cr_ss.PTRGDP(0.01, 2.0, 2.0, test_cr_ss.DELTA)
    yield Audit(
        "PTR-GDP", ptr.cost.mu + test_cr_ss.SLACK, "μ",
        lambda: test_cr_ss.ptr_leak(ptr, (1.0, 2.718281828459045**0.01), 4000 * times),
    )  # fmt: skip
    for mu in (1.0, 2.0):
        yield Audit(
            "private variance", mu, "μ",
            lambda m=mu: test_private_variance.leak(test_private_variance.plan_for(m)),
        )  # fmt: skip
    yield Audit(
        "private covariance", 2.0, "μ",
        lambda: test_private_variance.leak(
            test_private_variance.plan_for(2.0, columns=2, shape="ellipsoid"), columns=2
        ),
    )  # fmt: skip
    yield Audit(
        "rank inversion, every answer", test_rank_inversion.MU, "μ", test_rank_inversion.leak
    )
    yield Audit(
        "half-centred", test_half_centred.MU + test_half_centred.SLACK, "μ", test_half_centred.leak
    )
    for statistic in (
        test_delta_method.SPREAD,
        test_delta_method.RATIO,
        test_delta_method.CORRELATION,
    ):
        name = f"delta method, {statistic.describe()['statistic']}"
        plan = test_delta_method.plan_for(statistic)
        yield Audit(
            name, test_delta_method.MU, "μ",
            lambda p=plan, s=statistic: test_delta_method.leak(p, s),
        )  # fmt: skip
    sandwich, linear = test_linearised.sandwich(), test_linearised.linearised()
    rows = test_linearised.UP, test_linearised.DOWN
    yield Audit(
        "private sandwich", test_linearised.MU, "μ",
        lambda: test_linearised.sandwich_leak(sandwich, *rows),
    )  # fmt: skip
    yield Audit(
        "linearised", test_linearised.MU, "μ",
        lambda: test_linearised.linearised_leak(linear, *rows),
    )  # fmt: skip
    blb = test_blbquant.plan_for(test_blbquant.Mean((0, 1)))
    yield Audit(
        "BLBQuant, search", blb.search.epsilon, "ε",
        lambda: test_blbquant.search_leak(blb, blb.search, seed=None, runs=1000 * times),
    )  # fmt: skip
    for name, (make, _) in test_local.QUERIES.items():
        query = make(1.0)
        yield Audit(
            f"local report, {name}", 1.0, "ε",
            lambda q=query: test_local.epsilon_lower_bound(
                lambda x: q.privatize(x).value, *test_local.ENDS
            ),
        )  # fmt: skip

    plan = test_cr_gs.plan_for("without_replacement", 3.0)
    half = test_cr_gs.noise_halved
    quiet = test_cr_gs.replace(plan, center=half(plan.center), radius=half(plan.radius))
    yield Audit("CR-GS with half the noise", 3.0, "μ", lambda: test_cr_gs.leak(quiet, 1), True)
    loud = test_linearised.quieter(sandwich, "start", 8)
    yield Audit(
        "private sandwich, an eighth of the noise", test_linearised.MU, "μ",
        lambda: test_linearised.sandwich_leak(loud, *rows), True,
    )  # fmt: skip


def run(times: int, path: Path) -> bool:
    """Attack, writing the table after every line; return whether all is as it should be."""
    lines, fine = [], True
    for audit in audits(times):
        start = time.monotonic()
        found = audit.attack()
        right = (found > audit.claim) == audit.broken
        fine &= right
        expected = "above" if audit.broken else "at most"
        verdict = "as it should be" if right else "**WRONG**"
        claim = f"{expected} {audit.claim:.3g} {audit.unit}"
        lines.append(f"| {audit.name} | {claim} | {found:.3f} | {verdict} |")
        print(f"{lines[-1]}  {time.monotonic() - start:.0f} s", flush=True)
        path.write_text(HEAD.format(times=times) + "\n".join(lines) + "\n")
    return fine


HEAD = """# Audits
Written by `tests/audit/run_long.py {times}`: {times} times the runs of the tests. Each number is a
lower bound, by attack, on the privacy loss; a sound mechanism's exceeds its claim at most once in a
million runs of a line. Lines that say "above" are broken on purpose.

| mechanism | claim | found | |
| --- | --- | --- | --- |
"""


if __name__ == "__main__":
    TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    WHERE = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/audits.md")
    sys.exit(0 if run(TIMES, WHERE) else 1)
