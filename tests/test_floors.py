"""A package imports only from floors below it, never sideways."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Lowest first; a row is one floor, and rooms of one floor do not see each other.
# The contracts (floor 1 of the design) are plain values built on each other, hence their own rows.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("so_far",),
    ("errors", "fact", "ids", "clock", "wake", "heap", "embedded"),
    ("sampling", "config"),
    ("canonical_json", "vocab", "segments", "store"),
    ("constraint_spec", "step"),
    ("backend",),
    ("events",),
    ("frame", "delivery"),
    ("graph", "cache", "constraints", "prompt", "tools"),
    ("scheduler", "telemetry", "report"),
    ("program",),
    ("engine", "remote", "router", "scripted"),
    ("runtime",),
    ("app", "testing", "workloads"),
    ("server", "bench", "sim"),
    ("eval", "tune"),
    ("cli", "pytest_plugin"),
    ("__init__", "__main__"),
)
FLOOR = {room: level for level, row in enumerate(FLOORS) for room in row}
TORCH_ROOMS = {"engine"}
# Scripts that run in an environment of their own, by path; nothing of ours imports them.
PEERS = ROOT / "agentrt" / "bench" / "peers"


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "agentrt").parts
    return parts[0].removesuffix(".py")


@cache
def imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            module = node.module or ""
            if module == "agentrt":
                found += [(node.lineno, f"agentrt.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, module))
    return tuple(found)


def sources() -> list[Path]:
    return sorted((ROOT / "agentrt").rglob("*.py"))


def test_every_room_has_a_floor() -> None:
    unknown = {room_of(path) for path in sources()} - FLOOR.keys()
    assert not unknown, f"rooms without a floor: {sorted(unknown)}"


def test_imports_go_down_only() -> None:
    wrong: list[str] = []
    for path in sources():
        here = room_of(path)
        for line, name in imports_of(path):
            top, _, rest = name.partition(".")
            if top != "agentrt":
                continue
            there = rest.partition(".")[0]
            if there not in FLOOR:
                wrong.append(f"{path}:{line} imports {name}: not a room")
            elif there != here and FLOOR[there] >= FLOOR[here]:
                wrong.append(f"{path}:{line} imports {name}: not below {here}")
    assert not wrong, "\n".join(wrong)


def test_torch_has_one_door() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in sources()
        if room_of(path) not in TORCH_ROOMS and not path.is_relative_to(PEERS)
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
    """`importlib.import_module("agentrt...")` would go around the floors."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name.endswith(("import_module", "__import__")):
                raise AssertionError(f"{path}:{node.lineno} imports by string")
