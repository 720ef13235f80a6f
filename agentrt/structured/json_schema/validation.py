"""Validation of grammars: natively here if they are plain by proof, else in a process of its own.

A native parser that recurses too deeply ends its process, and nothing can catch that.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from pathlib import Path

from agentrt.base.child_environment import child_environment
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.compile_cost import may_be_hostile
from agentrt.structured.json_schema.native import complaint_text, grammar_error

_CHILD = Path(__file__).with_name("validation_child.py")
_WALL_S = 30.0
"""CPU time decides, which the child limits: this is for machines that are very busy."""
_MAX_KNOWN = 512
_MAX_PROCESSES = 2
_TOO_COSTLY = "takes too long or too much memory to check"


class GrammarValidator:
    """Validates grammars and keeps the complaints about the last few hundred. Thread-safe.

    Attributes:
        starts: Number of processes started so far.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()
        self._free = threading.Semaphore(_MAX_PROCESSES)
        self.starts = 0

    def complaint(self, spec: ConstraintSpec, grammar: str) -> str:
        """The compiler's error for the grammar of a constraint; "" if there is none.

        Raises:
            ConstraintError: The grammar takes too much time or memory, or ends the compiler.
        """
        if not may_be_hostile(spec):
            return grammar_error(grammar)
        key = hashlib.sha256(grammar.encode(errors="surrogatepass")).digest()
        with self._lock:
            found = self._known.get(key)
        if found is None:
            with self._free:
                found = self._complaint_of_child(grammar)
            self._keep(key, found)
        if found == _TOO_COSTLY:
            raise _too_costly()
        return found

    def _complaint_of_child(self, grammar: str) -> str:
        self.starts += 1
        try:
            ended = subprocess.run(
                [sys.executable, "-P", str(_CHILD)],
                input=grammar.encode("utf-8", "replace"),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={
                    **child_environment(os.environ),
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
                timeout=_WALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:  # not kept: the machine may be less busy later
            raise _too_costly() from None
        if ended.returncode != 0:
            return _TOO_COSTLY
        return complaint_text(ended.stdout.decode("utf-8", "replace"))

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
