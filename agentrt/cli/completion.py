"""Values that the shell completes: past runs, engines, programs of files. Nothing is run for it."""

from __future__ import annotations

import ast
import io
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

INSTRUCTION = "_AGENTRT_COMPLETE"
_MOST_RUNS = 50


def completed_words(environment: Mapping[str, str]) -> list[str]:
    """The words typed so far behind `agentrt`, if a shell asks for completion; else []."""
    if INSTRUCTION not in environment:
        return []
    typed = environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS", "")
    return typed.split()[1:]


@contextmanager
def joined_at_colon(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Make one word again of `FILE:FN`, which bash splits at the colon, if that is completed.

    Bash replaces what is behind the colon, so that is all that is printed meanwhile.
    """
    words = environment.get("COMP_WORDS", "").split()
    at = environment.get("COMP_CWORD", "")
    begin = _split_word(words, int(at)) if at.isdecimal() and INSTRUCTION in environment else None
    if begin is None:
        yield
        return
    environment["COMP_WORDS"] = " ".join([*words[:begin], "".join(words[begin:])])
    environment["COMP_CWORD"] = str(begin)
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        lines = [line.rpartition(":")[2] for line in printed.getvalue().splitlines()]
        sys.stdout.write("\n".join(lines) + "\n")


def _split_word(words: Sequence[str], at: int) -> int | None:
    """Index of the first part of the word that is completed; None if it is whole."""
    if at < 2 or at > len(words):
        return None
    if words[at:] == [":"]:
        return at - 1
    return at - 2 if words[at - 1] == ":" and at > 2 else None


def run_names(incomplete: str) -> list[tuple[str, str]]:
    """Ids of the newest runs, with their programs, and `last`."""
    from agentrt.cli.trace_files import LAST, runs_folder, trace_files

    known = [(LAST, "the newest run")]
    files = trace_files(runs_folder())[:_MOST_RUNS]
    known += [(one.run_id, f"{one.program}, {one.at}") for one in files if one.run_id]
    return [(name, text) for name, text in known if name.startswith(incomplete)]


def engine_names(incomplete: str) -> list[tuple[str, str]]:
    """Engines of `agentrt.toml`, with their kinds; none if the file is malformed."""
    from agentrt.base.engines.engine_file import EMBEDDED, engine_file
    from agentrt.base.errors import UsageError

    try:
        engines = engine_file(os.environ).engines
    except UsageError:
        return []
    known = [*((name, one.kind) for name, one in engines.items()), (EMBEDDED, "this process")]
    return [(name, text) for name, text in known if name.startswith(incomplete)]


def program_names(incomplete: str) -> list[str]:
    """The programs of a file, behind its name; names of files are left to the shell."""
    file, colon, begun = incomplete.rpartition(":")
    found = programs_in(Path(file if colon else incomplete))
    if colon:
        return [f"{file}:{name}" for name in found if name.startswith(begun)]
    return [incomplete, *(f"{incomplete}:{name}" for name in found)] if len(found) > 1 else []


def programs_in(file: Path) -> list[str]:
    """Names of the programs in a file, read from its text; [] if it cannot be read."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    functions = [node for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
    return [one.name for one in functions if any(map(_is_program, one.decorator_list))]


def _is_program(decorator: ast.expr) -> bool:
    """Whether a decorator is `program`, `agentrt.program`, or one of them with options."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] == "program"
