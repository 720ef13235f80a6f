"""The sandbox process: tries constraints that may be hostile, and dies of them in our stead.

Run as `python -m agentrt.structured.sandbox.probe_child`: orders come on standard input, answers go
to the original standard output. Time and memory are limited by the kernel, since native code cannot
be interrupted in any other way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

from agentrt.base.errors import ConstraintError
from agentrt.base.vocabulary import Vocab
from agentrt.protocol.child_limits import claim_answers, limit_cpu, limit_memory, payloads
from agentrt.structured.backends.llguidance_backend import SearchedConstraint
from agentrt.structured.backends.outlines_table import index_vocabulary
from agentrt.structured.json_schema.declaration_wire import ConstraintRefused
from agentrt.structured.sandbox import probe_wire as wire
from agentrt.structured.sandbox.compiled import compile_constraint
from agentrt.structured.sandbox.shortest_output import find_shortest
from agentrt.structured.vocabulary import alphabet_of

_STACK_BYTES = 4 << 20


def main() -> None:
    """Serve until the end of standard input."""
    answers = claim_answers()
    threading.excepthook = lambda _: os._exit(1)  # a try that breaks gives no answer
    vocab: Vocab | None = None
    for order in map(wire.ORDERS.value, payloads()):
        if isinstance(order, wire.Learn):
            vocab = order.vocab
            alphabet_of(vocab)
            index_vocabulary(vocab)
            limit_memory(order.more_bytes)
            _send(answers, wire.ProbeReady())
        elif vocab is not None:
            limit_cpu(order.limits.cpu_s)
            _run_in_small_stack(partial(_answer, answers, order, vocab))
            limit_cpu(0.0)


def _run_in_small_stack(function: Callable[[], None]) -> None:
    """Run a function with half of an ordinary stack: what passes here fits the engine's."""
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def _answer(answers: BinaryIO, order: wire.Try, vocab: Vocab) -> None:
    for answer in _answers_to(order, vocab):
        _send(answers, answer)


def _answers_to(order: wire.Try, vocab: Vocab) -> Iterator[wire.Answer]:
    try:
        constraint = compile_constraint(
            order.spec, vocab, order.frame, method=order.method, searches=False
        )
        yield wire.Compiled()
        if isinstance(constraint, SearchedConstraint):
            find_shortest(constraint, order.spec, vocab, order.frame)
        yield wire.Closes(constraint.shortest, constraint.least_tokens, constraint.why_open)
    except ConstraintError as wrong:
        yield ConstraintRefused.from_error(wrong)
    except MemoryError:
        yield ConstraintRefused("takes too much memory to compile", hint="Make it smaller")


def _send(answers: BinaryIO, answer: wire.Answer) -> None:
    answers.write(wire.ANSWERS.frame(answer))
    answers.flush()


if __name__ == "__main__":
    main()
