"""No test reaches into a private name of the package, nor replaces one of its parts from outside.

A test that does so breaks with each rename and states nothing that a user could notice. What
counts is an attribute that begins with an underscore, the import of such a name, either as a
string given to `getattr` or `setattr`, and each `monkeypatch` of something in the package.
"""

import ast
from collections.abc import Iterator, Sequence

import pytest

from tests.syntax import ROOT, files_in, nodes_of

TESTS = ROOT / "tests"
OURS = ("agentrt", "agentrt_command", "agentrt_pytest", "agentrt_kernels")
# What the standard library gives a leading underscore and documents all the same.
DOCUMENTED = {"_asdict", "_replace", "_fields", "_exit", "_getframe"}
ASKING = {"getattr", "setattr", "hasattr", "delattr"}
REPLACING = {"setattr", "delattr"}

# Reaches left by file. The numbers may only shrink: lower them with the test.
LEFT: dict[str, int] = {
    "conftest.py": 1,
    "engine/conftest.py": 1,
    "engine/native/test_self_check.py": 5,
    "engine/planning_cost.py": 6,
    "engine/test_constraints.py": 1,
    "engine/test_fairness.py": 1,
    "engine/test_fan_through_runtime.py": 1,
    "engine/test_jump_forward.py": 2,
    "engine/test_ledger.py": 1,
    "engine/test_linear.py": 1,
    "engine/test_process.py": 1,
    "engine/test_process_main.py": 1,
    "engine/test_report.py": 2,
    "engine/test_roofline.py": 2,
    "engine/test_scoring.py": 1,
    "engine/test_shared_prefix.py": 1,
    "engine/test_slow_constraints.py": 2,
    "engine/test_triton_engine.py": 3,
    "engine/test_unchanged_queue.py": 2,
    "kernels/test_triton_check.py": 2,
    "kernels/test_triton_set.py": 4,
    "lab/arms/test_runtime_arm.py": 1,
    "lab/bench/test_arms.py": 1,
    "lab/bench/test_engine_bench.py": 1,
    "lab/bench/test_gpu.py": 2,
    "lab/sim/test_chats.py": 1,
    "lab/sim/test_host_tier.py": 1,
    "lab/sim/test_simulation.py": 1,
    "lab/sim/test_sweep.py": 2,
    "lab/sim/test_two_executors.py": 2,
    "runtime/test_coalescing.py": 1,
    "runtime/test_error_table.py": 2,
    "runtime/test_estimate_database.py": 2,
    "runtime/test_estimate_writer.py": 2,
    "runtime/test_loop.py": 2,
    "runtime/test_overflow.py": 4,
    "runtime/test_overflow_ends.py": 1,
    "runtime/test_prewarm.py": 2,
    "runtime/test_random_programs.py": 12,
    "runtime/test_streams.py": 2,
}


def reaches(nodes: Sequence[ast.AST]) -> list[tuple[int, str]]:
    """Line and text of each reach behind a door."""
    own = _defined(nodes)
    imported = _imported(nodes)
    return sorted({(node.lineno, text) for node, text in _found(nodes, own, imported)})


def _found(
    nodes: Sequence[ast.AST], own: set[str], imported: dict[str, str]
) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and _is_private(node.attr, own):
            yield node, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
            for alias in node.names:
                if _is_private(alias.name, own):
                    yield node, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call):
            yield from ((node, text) for text in _by_name(node, own, imported))


def _by_name(call: ast.Call, own: set[str], imported: dict[str, str]) -> Iterator[str]:
    """Names that a call is given as strings, and what a monkeypatch replaces."""
    last = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if last not in REPLACING | ASKING:
        return
    function = ast.unparse(call.func)
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    names = [text for text in texts if isinstance(text, str)]
    if last in REPLACING and isinstance(call.func, ast.Attribute) and call.args:
        target = call.args[0]
        if isinstance(target, ast.Constant):
            module = str(target.value)
        else:
            root = ast.unparse(target).partition(".")[0]
            module = imported.get(root, "agentrt")
        if _is_ours(module):
            yield f"{function}({', '.join(ast.unparse(arg) for arg in call.args[:2])})"
    elif function in ASKING:
        yield from (name for name in names if _is_private(name, own))


def _is_private(name: str, own: set[str]) -> bool:
    is_private = name.startswith("_") and not name.endswith("__")
    return is_private and name not in own | DOCUMENTED


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in OURS


def _defined(nodes: Sequence[ast.AST]) -> set[str]:
    """Private names that the file itself defines: its functions, classes and attributes."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if ast.unparse(node.value) in ("self", "cls") else set()
    return names


def _imported(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """The module from which each imported name comes."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {
                (alias.asname or alias.name).partition(".")[0]: alias.name for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: node.module or "" for alias in node.names}
    return found


def reaches_by_file() -> dict[str, list[tuple[int, str]]]:
    found = {
        path.relative_to(TESTS).as_posix(): reaches(nodes_of(path)) for path in files_in("tests")
    }
    return {name: where for name, where in found.items() if where}


def test_no_test_reaches_behind_a_door() -> None:
    found = reaches_by_file()
    counts = {name: len(where) for name, where in found.items()}
    lines = [f"{name}:{line}: {text}" for name, where in found.items() for line, text in where]
    assert counts == LEFT, "\n".join(lines)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("core._clock.now_s()", True),
        ("from agentrt.a import _b", True),
        ("getattr(core, '_clock')", True),
        ("monkeypatch.setattr('agentrt.a.b', 1)", True),
        ("from agentrt import app\npatch.setattr(app, 'backend', 1)", True),
        ("import sys\nmonkeypatch.setattr(sys, 'argv', [])", False),
        ("class A:\n    def b(self):\n        self._c = 1\n        self._c", False),
        ("row._asdict()", False),
    ],
)
def test_a_reach_is_found(source: str, found: bool) -> None:
    assert bool(reaches(list(ast.walk(ast.parse(source))))) is found
