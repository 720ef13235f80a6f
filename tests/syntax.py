"""Syntax trees of the sources, parsed once: several tests read every file of the tree."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def files_in(*folders: str) -> tuple[Path, ...]:
    """Every source file in folders of the repository, in order."""
    return tuple(sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree, outermost first."""
    return tuple(ast.walk(tree_of(path)))
