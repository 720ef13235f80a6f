"""`FILE[:fn]`: loading a file and finding a program in it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from agentrt.base.errors import UsageError


def split(target: str) -> tuple[Path, str]:
    """The file and the function name of `FILE[:fn]`; the name is "" if missing."""
    file, colon, name = target.rpartition(":")
    if colon and file.endswith(".py"):
        return Path(file), name
    return Path(target), ""


def load(file: Path) -> ModuleType:
    """Load the module in `file` with its folder first on the path, as `python FILE` does.

    Raises:
        UsageError: There is no such file. Errors of the file itself pass through.
    """
    if file.is_dir():
        raise UsageError(f"{file} is a folder", hint=file_hint(file))
    if not file.is_file():
        raise UsageError(f"there is no file {file}", hint=file_hint(file))
    if file.suffix != ".py":
        raise UsageError(f"{file} is no Python file", hint="name a .py file: agentrt run FILE.py")
    full = file.resolve()
    if str(full.parent) not in sys.path:
        sys.path.insert(0, str(full.parent))
    name = full.stem if full.stem not in sys.modules else f"agentrt_program_{full.stem}"
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} cannot be loaded", hint="name a .py file: agentrt run FILE.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def find(target: str) -> Any:
    """The program of `FILE[:fn]`: without `:fn`, the one with the file's name.

    Raises:
        UsageError: The file or the program does not exist; lists what does.
    """
    file, name = split(target)
    return chosen(file, name, programs_of(load(file)))


def chosen(file: Path, name: str, programs: Mapping[str, Any]) -> Any:
    """The program with a name; without one, that with the name of the file.

    Raises:
        UsageError: There is none; lists what there is.
    """
    wanted = name or file.stem
    if wanted in programs:
        return programs[wanted]
    if not programs:
        raise UsageError(
            f"{file} has no program",
            hint="mark an async function with @program",
            where=str(file),
        )
    if not name and len(programs) == 1:
        return next(iter(programs.values()))
    raise UsageError(
        f"{file} has no program `{wanted}`",
        hint=f"name one of its programs: {choices(file, wanted, programs)}",
        where=str(file),
    )


def programs_of(module: ModuleType) -> dict[str, Any]:
    """The programs of a module by name, in order of definition."""
    from agentrt.program import Program

    return {key: value for key, value in vars(module).items() if isinstance(value, Program)}


def choices(file: Path, wanted: str, programs: Iterable[str]) -> str:
    """The programs of a file for the command line, the likeliest first."""
    names = list(programs)
    close = get_close_matches(wanted, names, n=1)
    return ", ".join(f"{file}:{name}" for name in close + [n for n in names if n not in close])


def file_hint(file: Path) -> str:
    """The most similar file, or the files of a folder."""
    if file.is_dir():
        inside = sorted(path for path in file.glob("*.py") if not path.name.startswith("_"))
        if inside:
            return f"name a file in it: {', '.join(str(path) for path in inside[:5])}"
        return "name a file with a program: agentrt run FILE[:fn]"
    folder = file.parent if file.parent.is_dir() else Path()
    found = sorted(path.name for path in folder.glob("*.py"))
    close = get_close_matches(file.name, found, n=1) or get_close_matches(f"{file.name}.py", found)
    if close:
        return f"did you mean {folder / close[0]}?"
    return "name a file with a program: agentrt run FILE[:fn]"
