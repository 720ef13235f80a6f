"""Compilation of untrusted constraints: those that may be hostile are tried in a sandbox first."""

from __future__ import annotations

import math
from dataclasses import replace

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured.backends.llguidance_backend import SearchedConstraint
from agentrt.structured.call_sets import TOOL_GRAMMARS, endings_of
from agentrt.structured.calls import held_tools
from agentrt.structured.json_schema.compile_cost import may_take_long
from agentrt.structured.json_schema.limits import check_spec
from agentrt.structured.matcher import CompiledConstraint
from agentrt.structured.sandbox.compiled import compile_constraint, methods_for
from agentrt.structured.sandbox.probe import CompileProbe, CompileTooCostly
from agentrt.structured.sandbox.probe_wire import Closes, MatchMethod, Try, TryLimits
from agentrt.structured.sandbox.shortest_output import find_fewest

LIMITS: dict[MatchMethod, TryLimits] = {
    "table": TryLimits(cpu_s=0.6, wall_s=4.0),
    "parser": TryLimits(cpu_s=1.2, wall_s=8.0),
}
"""CPU time decides, so that a busy machine refuses nothing that a quiet one accepts."""


class CompileService:
    """Compiles constraints without risk for this process. Thread-safe.

    Attributes:
        probe: Sandbox for constraints that may be hostile.
    """

    def __init__(self) -> None:
        self.probe = CompileProbe()

    def compile(self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> CompiledConstraint:
        """Compile a constraint and its first mask.

        Raises:
            ConstraintError: The constraint does not compile, or not within the limits.
            ModelInvalid: The tokenizer cannot be used.
        """
        if spec.kind == "calls":
            return self._compile_calls(spec, vocab, frame)
        check_spec(spec)
        if not may_take_long(spec):
            return compile_constraint(spec, vocab, frame)
        return self._compile_probed(spec, vocab, frame)

    def _compile_calls(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
    ) -> CompiledConstraint:
        """Compile a tool set: each tool that is not compiled yet is checked and tried by itself."""
        held = held_tools(spec)
        unknown = TOOL_GRAMMARS.unknown(held, endings_of(spec, frame, 1), vocab, frame)
        parts = [replace(spec, tools=(tool.schema,), source="", is_raw=False) for tool in unknown]
        parts += [replace(spec, tools=(), is_raw=False)] if spec.source else []
        tried: list[Closes] = []
        for part in parts:
            check_spec(part)
            if may_take_long(part):
                one = self._compile_probed(part, vocab, frame)
                tried.append(Closes(one.shortest, 0, one.why_open))
        closes = min(tried, key=_tokens, default=None)
        return compile_constraint(spec, vocab, frame, searches=not tried, closes=closes)

    def _compile_probed(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
    ) -> CompiledConstraint:
        for method in methods_for(spec, vocab):
            try:
                return self._probe(spec, vocab, frame, method)
            except CompileTooCostly:
                continue
        raise ConstraintError(
            "takes too long or too much memory to compile",
            hint="Make it smaller: fewer repetitions, branches or fields",
        )

    def _probe(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame, method: MatchMethod
    ) -> CompiledConstraint:
        closes = self.probe.find_shortest(Try(spec, frame, method, LIMITS[method]), vocab)
        return compile_constraint(spec, vocab, frame, method=method, searches=False, closes=closes)

    def fit(
        self,
        compiled: CompiledConstraint,
        spec: ConstraintSpec,
        vocab: Vocab,
        frame: CallFrame,
        within_tokens: int,
    ) -> None:
        """Search for the output with the fewest tokens if the known one has more than this."""
        known = compiled.min_tokens
        if known is None or known <= within_tokens or known == compiled.least_tokens:
            return
        if isinstance(compiled, SearchedConstraint) and within_tokens >= compiled.least_tokens:
            find_fewest(compiled, spec, vocab, frame)

    def close(self) -> None:
        """End the sandbox process."""
        self.probe.close()


def _tokens(closes: Closes) -> float:
    return math.inf if closes.tokens is None else len(closes.tokens)
