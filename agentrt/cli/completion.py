"""Values that the shell completes: past runs, engines, programs of files. Nothing is run for it."""

from __future__ import annotations

import ast
import io
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from agentrt.cli.parameters import Parameter

INSTRUCTION = "_AGENTRT_COMPLETE"
_MOST_RUNS = 50


def completed_words(environment: Mapping[str, str]) -> list[str]:
    """The words typed so far behind `agentrt`, if a shell asks for completion; else []."""
    if INSTRUCTION not in environment:
        return []
    typed = environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS", "")
    return typed.split()[1:]


@contextmanager
def joined_at_colons(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Make one word again of each `FILE:FN`, which bash splits at the colon, if a shell asks.

    Bash replaces what is behind the last colon, so that is all that is printed meanwhile.
    """
    given = environment.get("COMP_WORDS", "").split()
    at = environment.get("COMP_CWORD", "")
    if INSTRUCTION not in environment or not at.isdecimal():
        yield
        return
    words, begins = _joined(given)
    index = max((new for new, old in enumerate(begins) if old <= int(at)), default=0)
    is_new = int(at) >= len(given) and given[-1:] != [":"]
    index += is_new
    environment["COMP_WORDS"], environment["COMP_CWORD"] = " ".join(words), str(index)
    if is_new or begins[index] == int(at):
        yield
        return
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        lines = [line.rpartition(":")[2] for line in printed.getvalue().splitlines()]
        sys.stdout.write("\n".join(lines) + "\n")


def _joined(given: Sequence[str]) -> tuple[list[str], list[int]]:
    """Words with those around a colon joined, and the index of the first part of each."""
    words: list[str] = []
    begins: list[int] = []
    for at, word in enumerate(given):
        if words and (word == ":" or words[-1].endswith(":")):
            words[-1] += word
        else:
            words.append(word)
            begins.append(at)
    return words, begins


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
    return list(_programs(file))


def parameters_in(file: Path, name: str) -> list[Parameter]:
    """Parameters of a program in a file, by its text: their names, and which of them are switches.

    Args:
        file: The file.
        name: The program; "" takes that with the name of the file, or the only one.
    """
    programs = _programs(file)
    if not name:
        name = next(iter(programs)) if len(programs) == 1 else file.stem
    if name not in programs:
        return []
    arguments = programs[name].args
    found = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return [Parameter(one.arg, bool if _is_switch(one) else str) for one in found]


def _programs(file: Path) -> dict[str, ast.AsyncFunctionDef]:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    functions = (node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    return {one.name: one for one in functions if any(map(_is_program, one.decorator_list))}


def _is_switch(argument: ast.arg) -> bool:
    return isinstance(argument.annotation, ast.Name) and argument.annotation.id == "bool"


def _is_program(decorator: ast.expr) -> bool:
    """Whether a decorator is `program`, `agentrt.program`, or one of them with options."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] == "program"
