"""A package whose names are imported on first access gives the names that its types promise."""

import ast
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from tests.import_graph import imports_of, name_of, sources
from tests.syntax import nodes_of

LAZY: Mapping[str, Path] = {
    name_of(path): path
    for path in sources()
    if path.name == "__init__.py"
    and any(target.endswith(".lazy_exports") for _, target in imports_of(path))
}


def named_in(path: Path, package: str) -> set[str]:
    """The exports that an `__init__` names, read from its source."""
    (given,) = (
        ast.literal_eval(node.args[1])
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_exports"
    )
    return {f"{package}.{home}.{name}" for home in given for name in given[home].split()}


@pytest.mark.parametrize("package", LAZY)
def test_all_that_is_typed_is_given(package: str) -> None:
    typed = [one for _, one in imports_of(LAZY[package]) if one.startswith(f"{package}.")]
    assert typed
    assert set(typed) == named_in(LAZY[package], package)
    for one in typed:
        home, _, name = one.rpartition(".")
        given = getattr(import_module(package), name)
        assert given is getattr(import_module(home), name)


@pytest.mark.parametrize("package", LAZY)
def test_all_names_are_listed_before_they_are_imported(package: str) -> None:
    code = f"import {package}; print(*dir({package}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    named = {one.rpartition(".")[2] for one in named_in(LAZY[package], package)}
    assert named < set(done.stdout.split()), done.stderr


@pytest.mark.parametrize("package", LAZY)
def test_a_star_gives_all_of_them(package: str) -> None:
    named = {one.rpartition(".")[2] for one in named_in(LAZY[package], package)}
    assert set(import_module(package).__all__) == named


@pytest.mark.parametrize("package", LAZY)
def test_another_name_is_an_error(package: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = import_module(package).nothing


@pytest.mark.parametrize("package", LAZY)
def test_importing_it_loads_none_of_its_modules(package: str) -> None:
    code = f"import sys, {package}; print([m for m in sys.modules if m.startswith('{package}.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
