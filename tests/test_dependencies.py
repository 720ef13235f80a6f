"""What is imported is declared, and every version is pinned."""

import ast
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.syntax import ROOT, files_in, nodes_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# The rooms that import what the extra `engine` installs; `testing` does for a given codec.
DOORS = {"engine", "prompt", "lab", "testing"}
# Import name -> distribution, where they differ.
DISTRIBUTION = {
    "google": "protobuf",
    "mcp_types": "mcp",
    "opentelemetry": "opentelemetry-sdk",
    "pydantic_core": "pydantic",
    "outlines_core": "outlines-core",
    "typing_extensions": "typing-extensions",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
OWN = {"agentrt", "agentrt_command", "agentrt_pytest", "agentrt_kernels"}
# Run in an environment of their own, which `make peers` installs.
PEERS = ROOT / "agentrt" / "lab" / "arms" / "peers"


def name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match
    return match[0].lower().replace("_", "-")


def imported(folder: str) -> dict[str, str]:
    """Distribution -> where it is imported first."""
    found: dict[str, str] = {}
    for path in files_in(folder):
        if not path.is_relative_to(PEERS):
            found = imported_by(path) | found
    return found


def imported_by(path: Path) -> dict[str, str]:
    """Distribution -> where a file imports it first."""
    found: dict[str, str] = {}
    spared = done_without(nodes_of(path))
    for node in nodes_of(path):
        if not isinstance(node, ast.Import | ast.ImportFrom) or node in spared:
            continue
        given = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in given or [alias.name for alias in node.names]:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in OWN:
                found.setdefault(DISTRIBUTION.get(top, top), f"{path}:{node.lineno}")
    return found


def done_without(nodes: Sequence[ast.AST]) -> set[ast.AST]:
    """Imports whose module may be missing: the code says what happens then."""
    tries = [node for node in nodes if isinstance(node, ast.Try)]
    return {
        inner
        for node in tries
        if any(h.type and "ModuleNotFoundError" in ast.unparse(h.type) for h in node.handlers)
        for statement in node.body
        for inner in ast.walk(statement)
    }


def test_what_is_imported_is_declared() -> None:
    declared = {name_of(one) for one in PROJECT["dependencies"]}
    engine, gpu, mcp = ({name_of(one) for one in EXTRAS[name]} for name in ("engine", "gpu", "mcp"))
    missing = {
        name: place
        for name, place in imported("agentrt").items()
        if name not in declared | engine | mcp
    }
    assert not missing
    assert set(imported("kernels")) <= declared | engine | gpu


def test_the_packages_of_the_engine_have_few_doors() -> None:
    """All other rooms run in a light install."""
    engine = {name_of(one) for one in EXTRAS["engine"]}
    wrong = {
        place
        for path in files_in("agentrt")
        if path.relative_to(ROOT / "agentrt").parts[0] not in DOORS
        for name, place in imported_by(path).items()
        if name in engine
    }
    assert not wrong


def test_the_packages_of_tool_servers_have_one_door() -> None:
    wanted = {name_of(one) for one in EXTRAS["mcp"]}
    doors = {
        path.relative_to(ROOT / "agentrt").parts[0]
        for path in files_in("agentrt")
        if wanted & imported_by(path).keys()
    }
    assert doors == {"mcp"}


def test_what_is_declared_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {name_of(line) for line in lines if line and not line.startswith("#")}
    assert all("==" in line for line in lines if line and not line.startswith("#"))
    declared = [*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]
    assert {name_of(one) for one in declared} <= pinned


def test_the_makefile_contradicts_no_pin() -> None:
    """What an environment of a peer asks for by version, and installs under the constraints."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = dict(re.split(r"==", line) for line in lines if line and not line.startswith("#"))
    text = (ROOT / "Makefile").read_text("utf-8")
    for name, value in re.findall(r"^(\w+) := (.+)$", text, re.MULTILINE):
        text = text.replace(f"$({name})", value)
    asked = {
        (name_of(name), version)
        for line in text.splitlines()
        if "-c constraints.txt" in line
        for name, version in re.findall(r"([\w.-]+)==([\w.]+)", line)
    }
    assert ("langgraph", "1.2.22") in asked
    assert not {one for one in asked if pinned.get(one[0], one[1]) != one[1]}
