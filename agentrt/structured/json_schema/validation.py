"""Validation of grammars: natively here if they are plain by proof, else in a process of its own.

A native parser that recurses too deeply ends its process, and nothing can catch that.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import time
from collections import OrderedDict
from pathlib import Path

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.protocol.child_process import ChildProcess
from agentrt.structured.json_schema.native import complaint_text, grammar_error
from agentrt.structured.json_schema.plain import is_plain
from agentrt.structured.json_schema.validation_child import (
    WANTS_COMPLAINT,
    WANTS_TEXTS,
    sample_texts,
)

_CHILD = Path(__file__).with_name("validation_child.py")
_WALL_S = 10.0
"""CPU time decides, which the child limits: this is for machines that are very busy."""
_MAX_KNOWN = 512
_MAX_PROCESSES = 2
_TOO_COSTLY = "takes too long or too much memory to check"
_LENGTH = struct.Struct(">I")


class GrammarValidator:
    """Validates grammars and keeps the complaints about the last few hundred. Thread-safe.

    Attributes:
        starts: Number of processes started so far.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()
        self._free = threading.Semaphore(_MAX_PROCESSES)
        self._idle: list[ChildProcess] = []
        self.starts = 0

    def complaint(self, spec: ConstraintSpec, grammar: str) -> str:
        """The compiler's error for the grammar of a constraint; "" if there is none.

        Raises:
            ConstraintError: The grammar takes too much time or memory, or ends the compiler.
        """
        if is_plain(spec):
            return grammar_error(grammar)
        key = hashlib.sha256(grammar.encode(errors="surrogatepass")).digest()
        with self._lock:
            found = self._known.get(key)
        if found is None:
            answer = self._ask(WANTS_COMPLAINT, grammar)
            found = answer if answer == _TOO_COSTLY else complaint_text(answer)
            self._keep(key, found)
        if found == _TOO_COSTLY:
            raise _too_costly()
        return found

    def texts(self, spec: ConstraintSpec, grammar: str) -> list[str]:
        """Some texts of the grammar of a constraint, a short one first; [] if none are found."""
        if is_plain(spec):
            return sample_texts(grammar)
        answer = self._ask(WANTS_TEXTS, grammar)
        return [] if answer == _TOO_COSTLY else list(json.loads(answer))

    def close(self) -> None:
        """End the processes; later grammars start others."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _ask(self, wanted: bytes, grammar: str) -> str:
        """The answer of a process; `_TOO_COSTLY` if it ended of the grammar."""
        with self._free:
            return self._answer_to(wanted + grammar.encode("utf-8", "replace"))

    def _answer_to(self, order: bytes) -> str:
        child = self._child()
        ends_s = time.monotonic() + _WALL_S
        child.send(_LENGTH.pack(len(order)) + order, ends_s)
        answer = child.receive(ends_s)
        if answer is None:
            code = child.end()
            if code == 0:  # it was idle for long and ended as the grammar was sent
                return self._answer_to(order)
            if code is None:  # not kept: the machine may be less busy later
                raise _too_costly()
            return _TOO_COSTLY
        with self._lock:
            self._idle.append(child)
        return answer.decode("utf-8", "replace")

    def _child(self) -> ChildProcess:
        while True:
            with self._lock:
                if not self._idle:
                    self.starts += 1
                    break
                child = self._idle.pop()
            if child.is_alive:
                return child
            child.end()
        return ChildProcess(str(_CHILD))

    def _keep(self, key: bytes, complaint: str) -> None:
        with self._lock:
            self._known[key] = complaint
            while len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)


def _too_costly() -> ConstraintError:
    return ConstraintError(
        _TOO_COSTLY, hint="Make it smaller: fewer references, rules or repetitions"
    )


VALIDATOR = GrammarValidator()
"""The validator of this process."""
