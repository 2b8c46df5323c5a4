"""The public surface: a name is added or taken away on purpose, and says what it is."""

import ast
import importlib.metadata
import inspect

import pytest

import confidp

PUBLIC = [
    "CRGS",
    "CRSS",
    "ERM",
    "GDP",
    "SSVHL25",
    "ApproxDP",
    "AveragedSGD",
    "BLBQuant",
    "BudgetExhausted",
    "ClippedMean",
    "ConfidenceRegion",
    "ConfidpError",
    "Correlation",
    "Custom",
    "DeltaMethod",
    "DetteGraw",
    "FiniteUStatistic",
    "GiniMeanDifference",
    "HalfCentred",
    "HuberERM",
    "InvalidArgument",
    "KendallTau",
    "Ledger",
    "LedgerError",
    "Linearised",
    "LogisticERM",
    "Mean",
    "Median",
    "PrivateSandwich",
    "PrivateVariance",
    "ProductKernel",
    "Quantile",
    "RankInversion",
    "Ratio",
    "StandardDeviation",
    "StateError",
    "UStatistic",
    "Variance",
    "WilcoxonSignedRank",
    "confidence_region",
]


def members(thing):
    """The public methods and properties that a class itself defines."""
    if not inspect.isclass(thing):
        return []
    return [
        member
        for name, member in vars(thing).items()
        if not name.startswith("_")
        and (callable(member) or isinstance(member, property | classmethod | staticmethod))
    ]


def test_the_public_names_are_exactly_these():
    assert confidp.__all__ == PUBLIC


def test_a_star_import_brings_every_public_name_and_no_other():
    namespace = {}
    exec("from confidp import *", namespace)
    assert sorted(name for name in namespace if name != "__builtins__") == sorted(PUBLIC)


def test_what_type_checkers_read_is_what_is_imported_on_demand():
    tree = ast.parse(inspect.getsource(confidp))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    read = {
        alias.name: node.module.removeprefix("confidp.")
        for node in block.body
        for alias in node.names
    }
    assert read == confidp._HOMES
    assert set(PUBLIC) == set(read)
    assert set(PUBLIC) <= set(dir(confidp))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Meen'"):
        confidp.Meen  # noqa: B018


def test_the_version_is_that_of_the_package():
    assert confidp.__version__ == importlib.metadata.version("confidp")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_and_its_members_are_documented(name):
    thing = getattr(confidp, name)
    doc = inspect.getdoc(thing) or ""
    assert len(doc.split()) > 2
    assert not doc.startswith(f"{name}(")  # what a dataclass makes up by itself
    for member in members(thing):
        assert inspect.getdoc(member), member
