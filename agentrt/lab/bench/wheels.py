"""Which packages a GPU machine lacks that has torch, triton and transformers, and nothing else.

`python -m agentrt.lab.bench.wheels` prints them as `name==version`, one a line; `make gpu-wheels`
fetches them. What is installed here decides, so that the list cannot grow old.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version

THERE = frozenset({"torch", "triton", "transformers", "tokenizers", "safetensors", "numpy"})
"""What these need besides differs with their versions, and is small: it is brought along."""
WANTED = ("agentrt", "pytest", "hypothesis")


def missing() -> list[tuple[str, str]]:
    """Names and versions."""
    found = closure(WANTED)
    del found["agentrt"]
    return sorted(found.items())


def closure(names: Iterable[str]) -> dict[str, str]:
    """The packages and all that they need but for what is there, with the installed versions."""
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
            if "extra ==" not in requirement:
                match = re.match(r"[\w.-]+", requirement)
                assert match, requirement
                waiting.append(match[0])
    return found


def normal(name: str) -> str:
    """A package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}=={at}\n" for name, at in missing()))
