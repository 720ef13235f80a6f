"""The packages that a GPU machine with torch, triton and transformers lacks.

`python -m agentrt.lab.bench.wheels` prints them as `name==version`, one a line; `make gpu-wheels`
fetches them. The list follows from the installed packages, so it is never out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version

THERE = frozenset({"torch", "triton", "transformers", "tokenizers", "safetensors", "numpy"})
"""Their own requirements differ with their versions and are small, so they are brought along."""
WANTED = ("agentrt", "pytest", "hypothesis")
_ENGINE = re.compile(r"extra == ['\"]engine['\"]")


def missing() -> list[tuple[str, str]]:
    """Names and versions of these packages."""
    found = closure(WANTED)
    del found["agentrt"]
    return sorted(found.items())


def closure(names: Iterable[str]) -> dict[str, str]:
    """Packages with all their requirements, except those of `THERE`, by installed version."""
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = normal(waiting.pop())
        if name in found or name in THERE:
            continue
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # for another platform or Python
        for requirement in requires(name) or ():
            if "extra ==" not in requirement or (name == "agentrt" and _ENGINE.search(requirement)):
                match = re.match(r"[\w.-]+", requirement)
                assert match, requirement
                waiting.append(match[0])
    return found


def normal(name: str) -> str:
    """The name of a package in an index."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}=={at}\n" for name, at in missing()))
