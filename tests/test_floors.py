"""A package imports only from floors below it, never sideways; the same holds inside the wings."""

import ast

import pytest

from tests.import_graph import (
    PACKAGE,
    PEERS,
    arrows,
    circles,
    imports_of,
    module_graph,
    packages,
    room_graph,
    sources,
)
from tests.syntax import ROOT, nodes_of, tree_of

# Lowest first; a row is one floor, and rooms of one floor do not see each other.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("base", "embedded"),
    ("protocol",),
    ("kv_cache", "structured", "prompt", "tools", "analysis"),
    ("program", "scheduler", "telemetry"),
    ("engine", "mcp", "recording", "remote"),
    ("runtime",),
    ("app", "serve"),
    ("testing",),
    ("lab",),
    ("cli",),
)
TOP = ("__init__", "__main__")
FLOOR = {room: level for level, row in enumerate((*FLOORS, TOP)) for room in row}

# The wings, lowest first. Inside a wing modules import each other without a circle.
WINGS: dict[str, tuple[tuple[str, ...], ...]] = {
    "engine": (
        ("capabilities", "request_checks", "sequence"),
        ("kv",),
        ("batch", "sampling", "scheduling"),
        ("drafts", "ops", "outputs"),
        ("models",),
        ("runner",),
        ("step",),
        ("core",),
        ("process",),
    ),
    "lab": (
        ("number_bounds", "path_rules"),
        ("flag_rules",),
        (
            *("code_version", "errors", "flags", "operating_point", "progress", "result_file"),
            "workloads",
        ),
        ("checkpoints", "equal_facts", "evaluation", "quiet_machine", "resumed_file"),
        ("arms", "sim", "tuning"),
        ("sessions",),
        ("recorded",),
        ("bench",),
        ("commands",),
    ),
    "program": (
        ("call_site", "default_runner", "constraints", "messages", "overflow"),
        ("budget", "cost_budget", "output_types", "prompt_size", "users_part"),
        ("captures", "ports"),
        ("node",),
        ("arrivals", "output_reading", "scope", "yielding"),
        ("ask", "fan", "gather", "late_constraint", "limits", "race", "splitting", "tags", "tool"),
        ("output", "prompt_prefix", "tool_call"),
        ("options",),
        ("call_options",),
        ("generation",),
        ("tagged_text",),
        ("chat",),
        ("emit", "new_chat", "program", "trimming"),
        ("agent",),
        ("code", "source_texts", "static_scan"),
    ),
    "runtime": (
        ("written_answer",),
        (
            "estimate_store",
            "loop_threads",
            "tenant_usage",
            "loop_watch",
            "content_capture",
            "message_capture",
            "model_role",
        ),
        (
            *("engine_deadline", "engine_load", "options", "progress", "run_content", "run_spans"),
            *("run_events", "run_map", "task", "warmup"),
        ),
        ("run_watch",),
        ("observers", "started_run"),
        ("node_limits", "run_begin", "tracing"),
        ("run",),
        ("completion", "in_flight", "run_cost"),
        ("kv_hints", "refused", "response_cache", "tasks"),
        ("requests",),
        ("effects",),
        ("loop",),
        ("assembly",),
        ("run_starts",),
        ("runtime",),
        ("opening",),
    ),
    "scheduler": (
        ("estimates", "placement", "policies"),
        ("runs", "decisions"),
        ("order", "retention", "internal_events", "deadlines"),
        ("admission",),
        ("state", "learning"),
        ("accounting", "decide", "demand"),
        ("apply",),
    ),
    "structured": (
        ("grammar_cache", "json_scan", "json_schema", "matcher", "vocabulary"),
        ("distinct_tokens", "free_text", "lark_json"),
        ("backends", "expression", "partial", "tagged_text", "types"),
        ("call_arguments", "calls", "closing", "distinct_state", "parts", "rendering"),
        ("call_grammars", "call_text"),
        ("call_sets", "composition", "tags"),
        ("call_state", "spans"),
        ("captures", "masks"),
        ("reasoning", "sandbox"),
    ),
}

TORCH_ROOMS = {"engine"}
# How idle the device is, as torch's profiler sees it.
TORCH_FILES = {PACKAGE / "lab" / "arms" / "gpu_idle.py"}

KNOWN_CIRCLES: list[set[str]] = []
MOST_ROOMS, MOST_ARROWS = 30, 121
MOST_ENGINE_ROOMS, MOST_ENGINE_ARROWS = 16, 46


def test_every_room_has_a_floor() -> None:
    assert set(room_graph()) == FLOOR.keys()


def test_imports_go_down_only() -> None:
    wrong = [
        f"{here} imports {there}, which is not below it"
        for here, targets in room_graph().items()
        for there in sorted(targets)
        if FLOOR[there] >= FLOOR[here]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("wing", sorted(WINGS))
def test_wings_go_down_only(wing: str) -> None:
    rooms = room_graph(f"agentrt.{wing}")
    level = {room: height for height, row in enumerate(WINGS[wing]) for room in row}
    assert level.keys() == rooms.keys() - {"__init__"}
    wrong = [
        f"{wing}.{here} imports {wing}.{there}, which is not below it"
        for here, targets in rooms.items()
        for there in sorted(targets)
        if here != "__init__" and level[there] >= level[here]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", packages())
def test_rooms_of_a_package_form_no_circle(package: str) -> None:
    found = circles(room_graph(package))
    assert found == [], f"{package}: {found}"


def test_modules_form_no_circle() -> None:
    """Not even by an import that only the type checkers read."""
    assert [group for group in circles(module_graph()) if set(group) not in KNOWN_CIRCLES] == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_the_house_stays_small(capsys: pytest.CaptureFixture[str]) -> None:
    house, engine = room_graph(), room_graph("agentrt.engine")
    engine.pop("__init__", None)
    with capsys.disabled():
        print(f"\nhouse: {len(house)} rooms, {arrows(house)} arrows; ", end="")
        print(f"engine: {len(engine)} rooms, {arrows(engine)} arrows")
    assert len(house) <= MOST_ROOMS
    assert arrows(house) <= MOST_ARROWS
    assert len(engine) <= MOST_ENGINE_ROOMS
    assert arrows(engine) <= MOST_ENGINE_ARROWS


def test_the_laboratory_is_imported_by_the_command_line_alone() -> None:
    """And inside functions: no command but its own waits for it."""
    for path in sources():
        if path.is_relative_to(PACKAGE / "lab"):
            continue
        names = [name for _, name in imports_of(path) if name.startswith("agentrt.lab")]
        assert not names or path.is_relative_to(PACKAGE / "cli"), f"{path} imports {names}"
        for node in tree_of(path).body:
            if isinstance(node, ast.ImportFrom):
                assert not str(node.module).startswith("agentrt.lab"), f"{path}:{node.lineno}"


def test_torch_has_one_door() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in sources()
        if path.relative_to(PACKAGE).parts[0] not in TORCH_ROOMS
        and path not in TORCH_FILES
        and not path.is_relative_to(PEERS)
        for line, name in imports_of(path)
        if name.partition(".")[0] in {"torch", "transformers", "triton", "agentrt_kernels"}
    ]
    assert not wrong, "\n".join(wrong)


def test_peers_and_agentrt_never_meet() -> None:
    """A peer's script runs where agentrt is not installed, and needs what is not installed here."""
    for path in sources():
        for line, name in imports_of(path):
            if path.is_relative_to(PEERS):
                assert not name.startswith("agentrt"), f"{path}:{line} imports {name}"
            assert not name.startswith("agentrt.lab.arms.peers"), f"{path}:{line} imports {name}"


def test_kernels_never_import_agentrt() -> None:
    for path in (ROOT / "kernels").rglob("*.py"):
        for line, name in imports_of(path):
            assert name.partition(".")[0] != "agentrt", f"{path}:{line} imports {name}"


def test_no_import_by_string() -> None:
    """`importlib.import_module("agentrt...")` would go around the floors.

    Lazy exports import what `__init__` imports under `TYPE_CHECKING`: `tests/base` compares them.
    """
    for path in sources():
        if path == PACKAGE / "base" / "lazy_exports.py":
            continue
        for node in nodes_of(path):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name.endswith(("import_module", "__import__")):
                raise AssertionError(f"{path}:{node.lineno} imports by string")
