"""Families: cells against mpmath and SciPy, far tails, priors, coordinates, gradients."""

import dataclasses
import itertools
import json

import mpmath
import numpy as np
import pytest
from scipy import stats

from confidp.errors import InvalidArgument, InvalidType
from confidp.local.population import (
    Exponential,
    Gamma,
    Laplace,
    Logistic,
    LogNormal,
    LogNormalPrior,
    Normal,
    NormalPrior,
    RootInverseGammaPrior,
    ScipyFamily,
    StudentT,
    as_population,
    population_from_dict,
)

FALSE_ALARM = 1e-6
WEIBULL = ScipyFamily("weibull_min", {"c": LogNormalPrior(), "scale": LogNormalPrior()})
# A family, one θ, and the same distribution as SciPy has it.
CASES = [
    (Normal(), (50.0, 3.0), stats.norm(50, 3)),
    (StudentT(4), (50.0, 3.0), stats.t(4, 50, 3)),
    (Logistic(), (50.0, 3.0), stats.logistic(50, 3)),
    (Laplace(), (50.0, 3.0), stats.laplace(50, 3)),
    (LogNormal(), (1.0, 0.7), stats.lognorm(0.7, scale=np.e)),
    (Exponential(), (4.0,), stats.expon(scale=4)),
    (Gamma(), (2.5, 4.0), stats.gamma(2.5, scale=4)),
    (WEIBULL, (1.5, 4.0), stats.weibull_min(1.5, scale=4)),
]
FAMILIES = [family for family, _, _ in CASES]
names = [type(family).__name__ for family in FAMILIES]


@pytest.mark.parametrize(("family", "theta", "reference"), CASES, ids=names)
def test_cells_are_scipys_on_both_sides(family, theta, reference):
    cuts = reference.ppf([1e-12, 1e-3, 0.3, 0.5, 0.8]).tolist()
    cuts.append(float(reference.isf(1e-12)))
    (cells,) = family.cells(np.array([theta]), np.array(cuts))
    inner = [reference.cdf(b) - reference.cdf(a) for a, b in itertools.pairwise(cuts[:5])]
    expected = [1e-12, *inner, reference.sf(cuts[4]) - 1e-12, 1e-12]
    assert np.allclose(cells, expected, rtol=1e-6, atol=0)
    assert cells.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(
    ("family", "theta"),
    [(f, t) for f, t, _ in CASES],
    ids=names,
)
@pytest.mark.parametrize("factor", [1e-250, 1e-9, 1e9, 1e250])
def test_cells_are_never_nan_where_the_scale_is_far_from_the_range(family, theta, factor):
    thetas = np.array([theta, theta, theta])
    thetas[1, -1] *= factor
    thetas[2, 0] *= factor
    for cuts in ([-1e300, 0.0, 1e300], [50.0, 50.0 + 1e-12], [-1e-300, 1e-300], [1e300]):
        cells = family.cells(thetas, np.array(cuts))
        assert cells.shape == (3, len(cuts) + 1)
        assert (cells >= 0).all()
        totals = cells.sum(axis=1)
        assert ((np.abs(totals - 1) < 1e-9) | (totals == 0)).all()  # 0 only where refused
        assert totals[0] == pytest.approx(1)


@pytest.mark.parametrize("z", [-37.0, -20.0, -5.0, 5.0, 20.0, 37.0])
def test_normal_tails_keep_their_digits_far_from_the_data(z):
    theta, cuts = np.array([[50.0, 3.0]]), np.array([50 + 3 * z, 50 + 3 * z + 1.5])
    (cells,) = Normal().cells(theta, cuts)
    with mpmath.workdps(60):
        exact = mpmath.ncdf(-abs(z) + (0.5 if z < 0 else 0)) - mpmath.ncdf(
            -abs(z) - (0 if z < 0 else 0.5)
        )
    assert cells[1] == pytest.approx(float(exact), rel=1e-10)


def test_a_wide_population_has_cells_as_wide_as_the_density_says():
    (cells,) = Normal().cells(np.array([[0.0, 1e6]]), np.array([-1.0, 1.0]))
    assert cells[1] == pytest.approx(2 / 1e6 / np.sqrt(2 * np.pi), rel=1e-9)
    (cells,) = Normal().cells(np.array([[0.3, 1e-6]]), np.array([-1.0, 1.0]))
    assert cells.tolist() == [0, 1, 0]


def test_a_refused_theta_is_impossible_and_not_nan():
    cells = WEIBULL.cells(np.array([[-1.0, 1.0], [np.nan, 1.0], [1.0, 1.0]]), np.array([1.0]))
    assert cells[:2].tolist() == [[0, 0], [0, 0]]
    assert cells[2].sum() == pytest.approx(1)


@pytest.mark.parametrize(("family", "theta", "reference"), CASES, ids=names)
def test_gradients_are_those_of_the_cells(family, theta, reference):
    cuts = reference.ppf([0.05, 0.4, 0.9])
    point = np.array(theta)
    gradient = family.gradient(point, cuts)
    for i in range(len(theta)):
        # Second-order differences at two steps, extrapolated: another route than the library's.
        slopes = []
        for step in (2e-3, 1e-3):
            shift = np.zeros(len(theta))
            shift[i] = step * abs(theta[i])
            above, below = family.cells(np.stack([point + shift, point - shift]), cuts)
            slopes.append((above - below) / (2 * shift[i]))
        assert gradient[i] == pytest.approx((4 * slopes[1] - slopes[0]) / 3, rel=1e-6, abs=1e-9)
    assert gradient.sum(axis=1) == pytest.approx(0, abs=1e-12)


def test_the_gamma_gradient_matches_mpmath():
    gradient = Gamma().gradient(np.array([2.5, 4.0]), np.array([7.0]))
    with mpmath.workdps(40):
        slope = mpmath.diff(lambda a: mpmath.gammainc(a, 0, 7 / mpmath.mpf(4), True), 2.5)
    assert gradient[0, 0] == pytest.approx(float(slope), rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=names)
def test_coordinates_go_there_and_back_and_the_jacobian_fits(family):
    rng = np.random.default_rng(1)
    z = rng.normal(size=(5, len(family.parameters)))
    theta = family.natural(z)
    assert np.allclose(family.unconstrained(theta), z)
    positive = [prior.positive for prior in family.priors]
    assert np.allclose(family.log_jacobian(z), np.log(theta[:, positive]).sum(axis=1))


@pytest.mark.parametrize(
    ("prior", "cdf"),
    [
        (NormalPrior(1, 3), stats.norm(1, 3).cdf),
        (LogNormalPrior(0.5, 2), stats.lognorm(2, scale=np.exp(0.5)).cdf),
        (RootInverseGammaPrior(2, 3), lambda x: stats.invgamma(2, scale=3).cdf(x * x)),
    ],
)
def test_priors_sample_what_their_density_says(prior, cdf):
    sample = prior.sample(20_000, np.random.default_rng(2))
    assert stats.kstest(sample, cdf).pvalue > FALSE_ALARM
    x, step = np.array([0.3, 1.0, 2.5]), 1e-5
    slope = (cdf(x + step) - cdf(x - step)) / (2 * step)
    assert np.exp(prior.log_density(x)) == pytest.approx(slope, rel=1e-6)


def test_the_normals_prior_is_the_papers():
    mu, sigma = Normal().priors
    assert mu == NormalPrior(0, 100)
    assert sigma == RootInverseGammaPrior(1, 1)
    theta = Normal().sample_prior(20_000, np.random.default_rng(3))
    assert stats.kstest(theta[:, 0], stats.norm(0, 100).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(theta[:, 1] ** 2, stats.invgamma(1).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("family", FAMILIES, ids=names)
def test_a_wild_coordinate_has_prior_density_zero_or_finite(family):
    d = len(family.parameters)
    for value in (np.nan, np.inf, -np.inf):
        assert family.log_prior(np.full((1, d), value)).tolist() == [-np.inf]
    far = family.log_prior(np.array([[1e4] * d, [-1e4] * d]))
    assert not np.isnan(far).any()
    assert (far < -100).all()


@pytest.mark.parametrize("family", FAMILIES, ids=names)
def test_json_there_and_back(family):
    again = population_from_dict(json.loads(json.dumps(family.to_dict())))
    assert again == family
    assert hash(again) == hash(family)


def test_a_family_outside_the_list_is_not_loaded():
    for fields in ({"family": "os"}, {"family": "Normal", "priors": {"mu": {"prior": "eval"}}}, {}):
        with pytest.raises(InvalidArgument):
            population_from_dict(fields)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Normal(sigma=NormalPrior()),
        lambda: Gamma(shape=NormalPrior()),
        lambda: StudentT(0),
        lambda: StudentT(float("nan")),
        lambda: NormalPrior(sd=0),
        lambda: LogNormalPrior(sd=-1),
        lambda: RootInverseGammaPrior(shape=0),
        lambda: ScipyFamily("poisson", {"mu": LogNormalPrior()}),
        lambda: ScipyFamily("os", {"mu": LogNormalPrior()}),
        lambda: ScipyFamily("gamma", {"scale": LogNormalPrior()}),
        lambda: ScipyFamily("gamma", {"a": LogNormalPrior()}, {"a": 1.0}),
        lambda: ScipyFamily("norm", {}),
        lambda: Normal().check([1.0]),
        lambda: Normal().check([1.0, 0.0]),
        lambda: Normal().check([np.nan, 1.0]),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(InvalidArgument):
        make()


def test_what_is_no_population_is_refused():
    with pytest.raises(InvalidType):
        as_population("normal")


def test_families_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Normal().mu = NormalPrior()  # type: ignore[misc]


@pytest.mark.parametrize(("family", "theta", "reference"), CASES, ids=names)
def test_snapped_cuts_come_from_a_grid_and_stay_near(family, theta, reference):
    point = np.array(theta)
    cuts = reference.ppf([0.25, 0.75])
    snapped = family.snap(point, cuts)
    assert family.snap(point, snapped) == pytest.approx(snapped, rel=1e-12)
    assert np.abs(reference.cdf(snapped) - [0.25, 0.75]).max() < 0.08
