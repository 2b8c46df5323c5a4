"""Imports point down only: cli → plots, io → central | local → privacy → randomness → errors."""

import ast
import textwrap
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import confidp

SOURCE = Path(confidp.__file__).parent
HEIGHT = {
    "cli": 5,
    "plots": 4,
    "io": 4,
    "central": 3,
    "local": 3,
    "privacy": 2,
    "randomness": 1,
    "errors": 0,
}


def module_files(package):
    """From every module's dotted name to its file."""
    files = {}
    for file in sorted(package.rglob("*.py")):
        parts = (package.name, *file.relative_to(package).with_suffix("").parts)
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


def imported(module, file, known):
    """The package's own modules that a file names in imports, at any depth."""
    root = module.split(".")[0]
    home = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = home[: len(home) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                names.add(inner if inner in known else base)
    return {name for name in names if name.split(".")[0] == root}


def layer_of(module):
    """The second part of its name; "" for the public face, confidp itself."""
    return module.partition(".")[2].partition(".")[0]


def complaints(package):
    """One line for each arrow that doesn't point down, and one for a cycle."""
    files = module_files(package)
    graph = {module: imported(module, file, files) for module, file in files.items()}
    found = []
    for module, targets in graph.items():
        source = layer_of(module)
        if source and source not in HEIGHT:
            found.append(f"{module} has no layer")
        if not source:
            continue  # the public face may import everything
        for target in sorted(targets):
            layer = layer_of(target)
            if layer == source or (not layer and source == "cli"):
                continue
            if layer not in HEIGHT or HEIGHT[layer] >= HEIGHT.get(source, -1):
                found.append(f"{module} -> {target}")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"cycle: {' -> '.join(error.args[1])}")
    return found


@pytest.fixture
def plant(tmp_path):
    """Make a fake source tree, sound but for the files given."""

    def make(**files):
        tree = {
            "__init__": "from confidp.central.mean import x",
            "errors": "x = 1",
            "randomness": "from confidp.errors import x",
            "privacy/__init__": "",
            "privacy/noise": "from confidp import randomness, errors",
            "central/__init__": "",
            "central/mean": "from confidp.privacy.noise import x\nimport confidp.errors",
            "central/grid": "from . import mean",
            "io/__init__": "",
            "cli/__init__": "",
            "cli/main": "from confidp import x\nfrom ..central import grid",
        } | {name.replace("__in__", "/"): text for name, text in files.items()}
        for name, text in tree.items():
            file = tmp_path / "confidp" / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
        return tmp_path / "confidp"

    return make


def test_the_imports_of_confidp_point_down_and_have_no_cycle():
    assert len(module_files(SOURCE)) > 20
    assert complaints(SOURCE) == []


def test_the_checker_passes_a_sound_tree(plant):
    assert complaints(plant()) == []


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("errors", "import confidp.privacy.noise", "errors -> confidp.privacy.noise"),
        ("randomness", "def f():\n    from confidp.privacy import noise", "randomness -> "),
        ("privacy__in__a", "from ..central.grid import x", "privacy.a -> confidp.central.grid"),
        ("privacy__in__a", "from confidp import x", "privacy.a -> confidp"),
        ("central__in__a", "if TYPE_CHECKING:\n    import confidp.io", "central.a -> confidp.io"),
        ("central__in__a", "from confidp.local import x", "central.a -> confidp.local"),
        ("plots__in__a", "from confidp import io", "plots.a -> confidp.io"),
        ("io__in__a", "from confidp import cli", "io.a -> confidp.cli"),
        ("utilities", "", "confidp.utilities has no layer"),
    ],
)
def test_the_checker_catches_an_arrow_up_or_sideways(plant, name, text, complaint):
    tree = plant(**{"local__in____init__": "", name: text})
    (found, *cycles) = complaints(tree)
    assert complaint in found
    assert all(line.startswith("cycle") for line in cycles)


def test_the_checker_catches_a_cycle_inside_a_layer_even_through_a_function(plant):
    tree = plant(central__in__mean="def f():\n    from confidp.central.grid import x")
    (found,) = complaints(tree)
    assert found.startswith("cycle: ")
    assert "confidp.central.grid" in found
    assert "confidp.central.mean" in found
