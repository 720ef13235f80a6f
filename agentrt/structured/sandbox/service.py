"""Compiling what others have written: what looks hostile is tried elsewhere first."""

from __future__ import annotations

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured.json_schema.limits import check_spec
from agentrt.structured.matcher import CompiledConstraint
from agentrt.structured.sandbox.compile_cost import may_be_hostile
from agentrt.structured.sandbox.compiled import compile_constraint, ways
from agentrt.structured.sandbox.probe import CompileProbe, TooDear
from agentrt.structured.sandbox.probe_wire import TryLimits, Way

LIMITS: dict[Way, TryLimits] = {
    "table": TryLimits(cpu_s=0.6, wall_s=4.0),
    "parser": TryLimits(cpu_s=1.2, wall_s=8.0),
}
"""The processor's time decides, so that a busy machine refuses nothing that a quiet one takes."""


class CompileService:
    """Compiles constraints, none of which can hurt this process. Thread-safe.

    Attributes:
        probe: Where those are tried first that look hostile.
    """

    def __init__(self) -> None:
        self.probe = CompileProbe()

    def compile(self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> CompiledConstraint:
        """Compile a constraint and its first mask.

        Raises:
            ConstraintError: It does not compile, or not within the limits.
            ModelInvalid: The tokenizer cannot be used.
        """
        check_spec(spec)
        if not may_be_hostile(spec):
            return compile_constraint(spec, vocab, frame)
        for way in ways(spec, vocab):
            try:
                return self._tried(spec, vocab, frame, way)
            except TooDear:
                continue
        raise ConstraintError(
            "takes too long or too much memory to compile",
            hint="Make it smaller: fewer repetitions, branches or fields",
        )

    def _tried(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame, way: Way
    ) -> CompiledConstraint:
        shortest = self.probe.shortest(spec, vocab, frame, way, LIMITS[way])
        return compile_constraint(spec, vocab, frame, way=way, searches=False, shortest=shortest)

    def close(self) -> None:
        """End its process."""
        self.probe.close()
