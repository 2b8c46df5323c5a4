"""Run every audit with more runs than the tests do, and write claim beside evidence.

    python tests/audit/run_long.py [times] [docs/audits.md] [part of a line's name]

Each line attacks a mechanism on its worst neighbours, as in the test module of its name, and gives
a lower bound on the μ or ε that it really has. A sound mechanism's bound exceeds its claim with
probability at most 1e-6 a line; a bound near the claim says that the attack is a good one. What is
broken on purpose has to exceed it. The command fails where one of the two doesn't hold. With part
of a name only such lines are run, and nothing is written.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from audit import (
    test_blbquant,
    test_cr_gs,
    test_cr_ss,
    test_delta_method,
    test_dette_graw,
    test_half_centred,
    test_linearised,
    test_local,
    test_noise,
    test_noisy_counts,
    test_private_variance,
    test_rank_inversion,
    test_ssvhl25,
)
from confidp import Mean, Median
from confidp.central.methods.dette_graw import DetteGraw
from confidp.central.methods.noisy_counts import NoisyCounts
from confidp.privacy.pure_dp import AboveThreshold

FEW = "all but what these runs can't show"


@dataclass(frozen=True)
class Audit:
    """One attack: what is claimed, what it finds, and what keeps that from the claim."""

    name: str
    claim: float
    unit: str
    attack: Callable[[], float]
    broken: bool = False
    note: str = FEW


def broken(name: str, claim: float, unit: str, attack: Callable[[], float]) -> Audit:
    """What has to be caught."""
    return Audit(f"**broken:** {name}", claim, unit, attack, True, "")


def audits(times: float) -> Iterator[Audit]:
    """Yield every attack, with `times` as many runs as here."""

    def runs(number: int) -> int:
        return max(round(number * times), 40)

    yield from noise(runs)
    yield from resampled(runs)
    yield from smooth(runs)
    yield from variances(runs)
    yield from ranks(runs)
    yield from linearised(runs)
    yield from others(runs)
    yield from local(runs)


Runs = Callable[[int], int]


def noise(runs: Runs) -> Iterator[Audit]:
    """The mechanisms that draw it."""
    one, n = test_noise.EPSILON, runs(4000)
    yield Audit("Gaussian noise", test_noise.MU, "μ", partial(test_noise.gaussian_leak, runs=n))
    yield Audit("Laplace noise", one, "ε", partial(test_noise.laplace_leak, runs=n))
    yield Audit("integer Laplace noise", one, "ε", partial(test_noise.count_leak, runs=n))
    yield Audit(
        "AboveThreshold", 4.0, "ε", partial(test_noise.search_leak, runs=n),
        note="ε itself is for streams without end and events of no probability",
    )  # fmt: skip
    yield Audit(
        "exponential mechanism", one, "ε", partial(test_noise.rank_leak, runs=10 * n),
        note="one point against ten shows 0.91; against ever more, 1",
    )  # fmt: skip
    for name, (attack, claim, number) in test_noise.BROKEN.items():
        unit = "μ" if "Gaussian" in name else "ε"
        yield broken(name, claim, unit, partial(attack, runs(number)))


def resampled(runs: Runs) -> Iterator[Audit]:
    """CR-GS."""
    for sampling in ("without_replacement", "with_replacement"):
        for mu in (1.0, 3.0):
            plan = test_cr_gs.plan_for(sampling, mu)
            kappa = plan.resampling.multiplicity
            yield Audit(
                f"CR-GS as published, {sampling.replace('_', ' ')}", mu, "μ",
                partial(test_cr_gs.leak, plan, kappa, runs(3000)),
            )  # fmt: skip
    leak, half = partial(test_cr_gs.noise_aware_leak, runs=runs(2000)), test_cr_gs.noise_halved
    yield Audit("CR-GS, noise-aware", 3.0, "μ", leak)
    yield Audit("CR-GS, noise-aware lower bound", 3.0, "μ", partial(leak, side="greater"))
    quiet = test_cr_gs.half_its_center_noise
    yield broken("CR-GS, noise-aware, half the center's noise", 3.0, "μ", partial(leak, quiet))
    yield broken(
        "CR-GS, lower bound, half the center's noise", 3.0, "μ",
        partial(leak, quiet, side="greater"),
    )  # fmt: skip
    plan = test_cr_gs.plan_for("without_replacement", 3.0)
    quieter = test_cr_gs.replace(plan, center=half(plan.center), radius=half(plan.radius))
    yield broken(
        "CR-GS as published, half the noise", 3.0, "μ",
        partial(test_cr_gs.leak, quieter, 1, runs(1500)),
    )  # fmt: skip
    plan = test_cr_gs.plan_for("with_replacement", 3.0)
    yield broken(
        f"CR-GS as published, κ = {plan.resampling.multiplicity} taken as 1", 3.0, "μ",
        partial(
            test_cr_gs.leak, test_cr_gs.multiplicity_of_1(plan), plan.resampling.multiplicity,
            runs(1500),
        ),
    )  # fmt: skip


def smooth(runs: Runs) -> Iterator[Audit]:
    """Noise as large as smooth sensitivities."""
    inflated = "a bound falls short with probability δ only, so it and the noise are e^t too large"
    for calibration in ("published", "noise-aware"):
        yield Audit(
            f"CR-SS, {calibration}", 3.0 + test_cr_ss.SLACK, "μ",
            partial(
                test_cr_ss.cr_ss_leak, test_cr_ss.SetMedian(0.5, (0, 1)), 3.0, runs(1200),
                calibration=calibration,
            ), note=inflated,
        )  # fmt: skip
    for what, moves in test_cr_ss.MOVES.items():
        yield Audit(
            f"CR-SS of a median by rank, the rank that moves is {what}",
            3.0 + test_cr_ss.SLACK, "μ",
            partial(test_cr_ss.rank_leak, *moves, 3.0, runs(2000)), note=inflated,
        )  # fmt: skip
    for what, rank, copy in (
        ("the quantile's own sensitivity only", (260, 260), test_cr_ss.OwnRankOnly),
        ("the resampled ranks' sensitivities only", (200, 300), test_cr_ss.ResampledRanksOnly),
    ):
        yield broken(
            f"CR-SS of a median by rank, {what}", 1.5 + test_cr_ss.SLACK, "μ",
            partial(test_cr_ss.rank_leak, *rank, 1.5, runs(600), copy),
        )  # fmt: skip
    ptr = test_cr_ss.PTRGDP(0.01, 2.0, 2.0, test_cr_ss.DELTA)
    claim, jump = ptr.cost.mu + test_cr_ss.SLACK, (1.0, math.exp(0.01))
    yield Audit("PTR-GDP", claim, "μ", partial(test_cr_ss.ptr_leak, ptr, jump, runs(4000)))
    for size in (0.01, 4.0):
        yield Audit(
            f"CR-SS, bounds first, that jump by e^{size:g}", 1.5 + test_cr_ss.SLACK, "μ",
            partial(
                test_cr_ss.bounds_first_leak, test_cr_ss.release_with_bounds, size, runs(2000)
            ), note=FEW if size < 1 else inflated,
        )  # fmt: skip
    half = test_half_centred
    yield Audit(
        "half-centred, searched neighbours", half.MU + half.SLACK, "μ",
        partial(half.leak, half.PLAN, runs(1500)),
        note=f"they move both bounds by all smoothness allows, and values little, whose noise is "
        f"e^{half.PLAN.center.log_inflation:.2f} too large so that a bound falls short with δ "
        f"only: {half.attained(half.PLAN, *half.searched()):.2f} in all",
    )  # fmt: skip
    yield broken(
        "half-centred, half the noise", half.MU + half.SLACK, "μ",
        partial(half.leak, half.quieter(2), runs(3000)),
    )  # fmt: skip
    for calibration in ("published", "noise-aware"):
        yield broken(
            f"CR-SS, {calibration}, Lemma 6.1's bound as SS_β", 2.0 + test_cr_ss.SLACK, "μ",
            partial(test_cr_ss.lemma_leak, calibration, runs(600)),
        )  # fmt: skip
    less = test_cr_ss.half_the_noise_on_its_bound()
    yield broken(
        "PTR-GDP, half the noise on its bound", less.cost.mu + test_cr_ss.SLACK, "μ",
        partial(test_cr_ss.ptr_leak, less, jump, runs(2000)),
    )  # fmt: skip
    yield broken(
        "CR-SS, bounds first, a radius with a scale that isn't released", 1.5 + test_cr_ss.SLACK,
        "μ",
        partial(test_cr_ss.bounds_first_leak, test_cr_ss.unreleased_scale, 4.0, runs(500)),
    )  # fmt: skip


def variances(runs: Runs) -> Iterator[Audit]:
    """Private variance and the delta method."""
    module, n = test_private_variance, runs(4000)
    for mu in (1.0, 2.0):
        attack = partial(module.leak, module.plan_for(mu), runs=n)
        yield Audit("private variance", mu, "μ", attack)
    attack = partial(module.leak, module.plan_for(2.0), module.GOLDEN, runs=n)
    yield Audit("private variance, where both moments move", 2.0, "μ", attack)
    plan = module.plan_for(2.0, columns=2)
    yield Audit(
        "private variance, two columns, box", 2.0, "μ",
        partial(module.leak, plan, module.GOLDEN, 2, runs(2000)),
    )  # fmt: skip
    plan = module.plan_for(2.0, columns=2, shape="ellipsoid")
    yield Audit(
        "private variance, two columns, ellipsoid", 2.0, "μ",
        partial(module.leak_of_an_ellipsoid, plan, 2, runs(2000)),
    )  # fmt: skip
    plan = module.plan_for(2.0)
    quiet = module.replace(plan.mechanism, sensitivity=plan.mechanism.sensitivity / 2)
    yield broken(
        "private variance, half the noise", 2.0, "μ",
        partial(module.leak, module.replace(plan, mechanism=quiet), runs=n),
    )  # fmt: skip
    yield broken(
        "private variance, a third of the second moment's noise", 2.0, "μ",
        partial(module.small_bulge_leak, n, None),
    )  # fmt: skip
    plan = module.mean_difference_plan(2.0)
    yield Audit(
        "jackknifed mean difference", 2.0, "μ", partial(module.leak_of_a_mean_difference, plan, n),
        note="the bound on its variance has 11% to spare at n = 50",
    )  # fmt: skip
    quiet = module.replace(plan.spread, sensitivity=plan.spread.sensitivity / 4)
    yield broken(
        "jackknifed mean difference, noise for independent components", 2.0, "μ",
        partial(module.leak_of_a_mean_difference, module.replace(plan, spread=quiet), n),
    )  # fmt: skip
    delta = test_delta_method
    for statistic in (delta.SPREAD, delta.RATIO, delta.CORRELATION):
        yield Audit(
            f"delta method, {statistic.describe()['statistic']}", delta.MU, "μ",
            partial(delta.leak, delta.plan_for(statistic), statistic, runs=runs(4000)),
            note="no record moves all products by all they can at once"
            if statistic is delta.CORRELATION else FEW,
        )  # fmt: skip
    yield broken(
        "delta method, the whole budget for every part", delta.MU, "μ",
        partial(
            delta.leak, delta.all_of_it_on_every_part(delta.plan_for(delta.SPREAD)), delta.SPREAD,
            runs=runs(4000),
        ),
    )  # fmt: skip


def ranks(runs: Runs) -> Iterator[Audit]:
    """Noisy counts, and the searches made of them."""
    module = test_noisy_counts
    for change in module.CHANGES:
        yield Audit(
            f"noisy counts together that change by {change}", module.MU, "μ",
            partial(module.leak, change, runs=runs(4000)),
        )  # fmt: skip
    yield broken(
        "noisy counts together, half the noise", module.MU, "μ",
        partial(module.leak, (1, 0), module.quieter(NoisyCounts(module.MU, 2)), runs(2000)),
    )  # fmt: skip
    yield broken(
        "noisy counts together, each with the noise of one", module.MU, "μ",
        partial(module.leak, (1, 1), module.one_by_one(), runs(4000)),
    )  # fmt: skip
    yield broken(
        "noisy counts together of sensitivity 2 claimed as 1", module.MU, "μ",
        partial(module.leak, (2, 2), runs=runs(2000)),
    )  # fmt: skip
    module = test_rank_inversion
    for q, what in ((0.5, "a median"), (0.95, "a 95% quantile")):
        yield Audit(
            f"rank inversion of {what}, every answer", module.MU, "μ",
            partial(module.leak, runs=runs(1000), q=q),
        )  # fmt: skip
    yield broken(
        "rank inversion, counts of sensitivity 2 claimed as 1", module.MU, "μ",
        partial(module.leak, moves=2, runs=runs(1000)),
    )  # fmt: skip
    yield broken(
        "rank inversion, half the noise", module.MU, "μ",
        partial(module.leak, module.quieter(2), runs=runs(1000)),
    )  # fmt: skip


def linearised(runs: Runs) -> Iterator[Audit]:
    """M-estimators by a Newton step."""
    module = test_linearised
    MU, names = module.MU, {"start": "minimiser", "covariance": "mean of g gᵀ"}
    plan, n = module.sandwich(), runs(1500)
    best = module.attained(plan, module.UP, module.TURNED)
    yield Audit(
        "private sandwich, all of it", MU, "μ",
        partial(module.sandwich_leak, plan, module.UP, module.TURNED, runs=n),
        note=f"gradients g and −g have one g gᵀ: a turn by 120° shows {best:.2f} of all parts",
    )  # fmt: skip
    for part, mechanism in zip(module.PARTS, module.mechanisms(plan), strict=True):
        rows, name = module.WORST[part], names.get(part, part)
        shown = module.attained(plan, *rows, [part]) / mechanism.mu
        yield Audit(
            f"private sandwich, its {name} alone", MU / 2, "μ",
            partial(module.sandwich_leak, plan, *rows, [part], n),
            note=f"moves by {100 * shown:.0f}% of all it can: {FEW}",
        )  # fmt: skip
        yield broken(
            f"private sandwich, half the noise on its {name} alone", MU / 2, "μ",
            partial(module.sandwich_leak, module.quieter(plan, part), *rows, [part], n),
        )  # fmt: skip
    yield broken(
        "private sandwich, half the noise on all of it", MU, "μ",
        partial(
            module.sandwich_leak, module.quieter(plan, *module.PARTS), module.UP, module.TURNED,
            runs=n,
        ),
    )  # fmt: skip
    ball, three = module.linearised(), module.PARTS[:3]
    yield Audit(
        "linearised, all of it", MU, "μ", partial(module.linearised_leak, ball, runs=n),
        note=f"minimiser, gradient and radius move by all they can, √¾ of μ = {MU * 0.75**0.5:.2f};"
        " the Hessian only where residuals, and so gradients, are small",
    )  # fmt: skip
    yield Audit(
        "linearised, its radius alone", MU / 2, "μ",
        partial(module.linearised_leak, ball, ["radius"], n),
    )  # fmt: skip

    def half_the_pivots(attack: Callable[[], float]) -> float:
        undo = module.halve_the_pivots(setattr)
        try:
            return attack()
        finally:
            undo()

    yield broken(
        "linearised, pivots taken to move by half, its radius alone", MU / 2, "μ",
        partial(half_the_pivots, partial(module.linearised_leak, ball, ["radius"], n)),
    )  # fmt: skip
    quiet = module.quieter(ball, *three)
    yield broken(
        "linearised, half the noise on all of it", MU, "μ",
        partial(half_the_pivots, partial(module.linearised_leak, quiet, runs=n)),
    )  # fmt: skip


def others(runs: Runs) -> Iterator[Audit]:
    """Methods to compare with."""
    module = test_dette_graw
    plan = module.plan_for(DetteGraw(), n=60, mu=3.0, n_resamples=10)
    yield Audit(
        "Dette-Graw, numerical accounting", 3.0, "μ",
        partial(module.numerical_leak, plan, runs(1500), None),
    )  # fmt: skip
    yield broken(
        "Dette-Graw, a third of the noise", 3.0, "μ",
        partial(module.numerical_leak, module.a_third_of_the_noise(plan), runs(2000), None),
    )  # fmt: skip
    claimed = module.asymptotic_plan()
    yield broken(
        "Dette-Graw, asymptotic accounting", claimed.request.mu, "μ",
        partial(module.asymptotic_leak, claimed, runs(150), None),
    )  # fmt: skip
    module = test_ssvhl25
    yield Audit(
        "SSVHL25", module.MU, "μ", partial(module.leak, module.PLAN, runs(1000), None),
        note="amplification and advanced composition ask for several times the noise",
    )  # fmt: skip
    yield broken(
        "SSVHL25, composition forgotten", module.MU, "μ",
        partial(module.leak, module.with_noise_for(module.MU), runs(500), None),
    )  # fmt: skip
    yield from blbquant(runs)


def blbquant(runs: Runs) -> Iterator[Audit]:
    """Its two estimates and its search."""
    module = test_blbquant
    mean, median = (
        module.plan_for(s) for s in (Mean((0, 1)), Median((0, 1), resolution=1))
    )  # fmt: skip
    epsilon, n = mean.search.epsilon, runs(4000)
    yield Audit(
        "BLBQuant, a mean's estimate", epsilon, "ε",
        partial(module.mean_estimate_leak, mean, None, n),
    )  # fmt: skip
    yield Audit(
        "BLBQuant, a median's estimate", epsilon, "ε",
        partial(module.median_estimate_leak, median, None, n),
        note="two points: the sum of all weights moves with a weight, which takes half of ε",
    )  # fmt: skip
    yield Audit(
        "BLBQuant, search", epsilon, "ε",
        partial(module.search_leak, mean, mean.search, seed=None, runs=n),
        note="one record moves all counts the same way: half of ε at most; AboveThreshold above "
        "is attacked with moves both ways",
    )  # fmt: skip
    yield broken(
        "BLBQuant, a mean's estimate with half the noise", epsilon, "ε",
        partial(module.mean_estimate_leak, module.half_the_noise(mean), None, n),
    )  # fmt: skip
    yield broken(
        "BLBQuant, a median's estimate with η eight times", epsilon, "ε",
        partial(module.median_estimate_leak, module.eta_too_large(median), None, n),
    )  # fmt: skip
    yield broken(
        "BLBQuant, search with a sixteenth of the noise", epsilon, "ε",
        partial(
            module.search_leak, mean, AboveThreshold(16 * epsilon), seed=None, runs=runs(3000)
        ),
    )  # fmt: skip
    yield broken(
        "BLBQuant, blocks that overlap", epsilon, "ε",
        partial(module.search_leak, mean, mean.search, 12, None, runs(3000)),
    )  # fmt: skip


def local(runs: Runs) -> Iterator[Audit]:
    """Local reports."""
    module = test_local
    module.DRAWS = runs(40_000)
    for name, (make, _) in module.QUERIES.items():
        yield Audit(f"local report, {name}", 1.0, "ε", partial(module.report_leak, make(1.0)))
    yield Audit("local report, Gaussian", 1.0, "μ", module.gaussian_leak)
    yield Audit("local, mirrored pair with its coin", 1.0, "ε", module.mirrored_leak)
    yield Audit("local, sign for a quantile", 1.0, "ε", module.sign_quantile_leak)
    yield Audit("local, vector, both components", 2.0, "ε", module.vector_leak)
    yield Audit("local, vector, one component by a coin", 2.0, "ε", module.one_component_leak)
    yield Audit(
        "local, what a collector by component asks", 2.0, "ε", module.componentwise_leak
    )  # fmt: skip
    root_two, *_ = module.root_two_too_small()
    yield broken("local Laplace noise too small by √2", 2.0, "ε", partial(
        module.report_leak, root_two
    ))  # fmt: skip
    yield broken("local sign, a weight off by a sixteenth of all", 1.0, "ε", module.weight_off_leak)
    for name in module.QUERIES:
        yield broken(
            f"local {name}, a weight off by 2^-20 of all: exact comparison", 1.0, "ε",
            lambda m=name: module.largest_log_ratio(module.one_weight_off(m, 2**12)),
        )  # fmt: skip
    yield broken("local vector, the whole ε for each component", 2.0, "ε", partial(
        module.vector_leak, module.whole_epsilon_each()
    ))  # fmt: skip
    yield broken(
        "local vector, one random number for all components", 2.0, "ε",
        module.one_random_number_leak,
    )  # fmt: skip
    yield broken("local, a coin that looks at the value", 1.0, "ε", partial(
        module.mirrored_leak, module.looks
    ))  # fmt: skip
    yield broken("local sign, 31 random bits for 32", 1.0, "ε", module.short_of_a_bit_leak)
    yield broken("local sign, the cell itself", 2.0, "ε", module.cell_leak)


def run(times: float, path: Path, part: str = "") -> bool:
    """Attack, writing the table after every line; return whether all is as it should be."""
    lines, fine = [], True
    for audit in audits(times):
        if part not in audit.name:
            continue
        start = time.process_time()
        found = audit.attack()
        right = (found > audit.claim) == audit.broken
        fine &= right
        claim = f"{'above' if audit.broken else 'at most'} {audit.claim:.3g} {audit.unit}"
        digits = 3 if abs(found - audit.claim) > 5e-4 else 8
        verdict = audit.note if right else "**WRONG**"
        lines.append(f"| {audit.name} | {claim} | {found:.{digits}f} | {verdict} |")
        print(f"{lines[-1]}  {time.process_time() - start:.1f} s", flush=True)
        if not part:
            path.write_text(HEAD.format(times=f"{times:g}") + "\n".join(lines) + "\n")
    return fine


HEAD = """# Audits
Written by `tests/audit/run_long.py {times}`. Each number is a lower bound, by attack on the real
noise where there is any, on the privacy loss; a sound mechanism's exceeds its claim at most once in
a million runs of a line. Lines that say "above" are broken on purpose, and have to. The last column
says what keeps a bound from its claim: with ever more runs, most would reach it.

| mechanism | claim | found | what keeps it from the claim |
| --- | --- | --- | --- |
"""


if __name__ == "__main__":
    TIMES = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    WHERE = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/audits.md")
    sys.exit(0 if run(TIMES, WHERE, sys.argv[3] if len(sys.argv) > 3 else "") else 1)
