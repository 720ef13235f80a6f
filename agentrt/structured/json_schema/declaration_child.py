"""The process of declarations: works out what stands for a schema, and may die of it.

Run by path. Time and memory are limited by the kernel, since native code cannot be interrupted in
any other way.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).resolve().parents[2]
_BARE = ("", ".base", ".protocol", ".structured", ".structured.json_schema")
_CPU_S = 2.0
_MORE_BYTES = 1 << 30
_IDLE_S = 30.0


def main() -> None:
    """Answer the orders on standard input, until its end or until there are none for a while."""
    from agentrt.protocol.child_limits import claim_answers, limit_cpu, limit_memory, payloads
    from agentrt.structured.json_schema import declaration_wire as wire
    from agentrt.structured.json_schema.declaring import answer_to

    answers = claim_answers()
    limit_memory(_MORE_BYTES)
    for payload in payloads(_IDLE_S):
        limit_cpu(_CPU_S)
        answer: wire.Answer
        try:
            answer = answer_to(wire.ORDERS.value(payload))
        except MemoryError:
            answer = wire.ConstraintRefused(
                "takes too much memory to check", hint="Make it smaller"
            )
        except Exception as wrong:
            answer = wire.DeclarationBroke(f"{type(wrong).__name__}: {wrong}"[:1_000])
        limit_cpu(0.0)
        answers.write(wire.ANSWERS.frame(answer))
        answers.flush()


def import_bare() -> None:
    """Let packages be imported without what they export, which takes most of the start."""
    for suffix in _BARE:
        package = ModuleType(f"{_PACKAGE.name}{suffix}")
        package.__path__ = [str(_PACKAGE.joinpath(*suffix.split(".")))]
        sys.modules[package.__name__] = package


if __name__ == "__main__":
    import_bare()
    main()
