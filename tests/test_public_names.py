"""Each package says in one alphabetical list what it offers."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(
    str(path.parent.relative_to(ROOT)).replace("/", ".")
    for path in (ROOT / "agentrt").rglob("__init__.py")
)
TORCH_ROOMS = ("agentrt.engine",)


def names_in(package: str) -> list[str]:
    """`__all__` as it stands in the file."""
    tree = ast.parse((ROOT / package.replace(".", "/") / "__init__.py").read_text("utf-8"))
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def shelf(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as ruff sorts them; alphabetical in each."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, name


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_alphabetical(package: str) -> None:
    names = names_in(package)
    assert names == sorted(set(names), key=shelf)


@pytest.mark.parametrize("package", [p for p in PACKAGES if not p.startswith(TORCH_ROOMS)])
def test_what_is_promised_is_there(package: str) -> None:
    module = importlib.import_module(package)
    missing = [name for name in names_in(package) if not hasattr(module, name)]
    assert not missing


def test_the_language_is_public() -> None:
    """What a program is written with comes from the top."""
    wanted = {
        "AgentrtError",
        "Calls",
        "Chat",
        "Each",
        "Final",
        "Gen",
        "Node",
        "Program",
        "Tool",
        "ask",
        "cfg",
        "chat",
        "choice",
        "emit",
        "fan",
        "gather",
        "json_schema",
        "limits",
        "program",
        "race",
        "regex",
        "tool",
    }
    assert wanted <= set(names_in("agentrt"))


def test_what_open_runtime_takes_is_public() -> None:
    """Its settings and observers are named by the signature, so users write their types."""
    wanted = {
        "EngineConfig",
        "LoraAdapter",
        "Observer",
        "PersonQuestion",
        "RunConfig",
        "RunOptions",
        "SchedulerConfig",
    }
    assert wanted <= set(names_in("agentrt"))
