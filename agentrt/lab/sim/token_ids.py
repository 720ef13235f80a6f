"""Token ids for texts that are only told by key and length: equal texts get equal ids."""

from __future__ import annotations

from collections.abc import Mapping

from agentrt.base.errors import UsageError
from agentrt.base.ids import RunId
from agentrt.lab.workloads import OutputOf, Piece, ProgramTrace, TraceCall, TraceResult
from agentrt.lab.workloads.trace import Part, parts

END_ID = 0
"""Stands behind every message, as templates have it."""

START_ID = 4
HEADER_IDS = {"system": 1, "user": 2, "assistant": 3}
_FIRST_ID = 16
_MOST_ID = 2**31 - 1
MESSAGE_TOKENS = 2
"""Tokens that a template adds to a message: its header and its end."""


class TokenIds:
    """Gives every text a range of ids of its own, and every key its text.

    Ranges never meet, so that two prompts share exactly the tokens of the pieces they share. All
    engines of one simulation use one of these.

    Args:
        start_tokens: Tokens that a template writes before the first message.
    """

    def __init__(self, start_tokens: int = 0) -> None:
        self.start = (START_ID,) * start_tokens
        self._ranges: dict[tuple[str, ...], range] = {}
        self._next = _FIRST_ID

    def piece(self, piece: Piece) -> range:
        """A text that may stand in many prompts.

        Raises:
            UsageError: The key stood for a text of another length before.
        """
        return self._range(("piece", piece.key), piece.tokens)

    def output(self, run_id: RunId, call: str, tokens: int) -> range:
        """The output of a call of a run."""
        return self._range(("output", run_id, call), tokens)

    def result(self, run_id: RunId, tool: str, tokens: int) -> range:
        """The answer of a tool of a run."""
        return self._range(("result", run_id, tool, str(tokens)), tokens)

    def forget(self, run_id: RunId, program: ProgramTrace) -> None:
        """The run is over: nothing quotes its own texts again."""
        for node in program.nodes:
            self._ranges.pop(("output", run_id, node.name), None)
            if isinstance(node, TraceCall):
                for part in parts(node):
                    if isinstance(part, TraceResult):
                        key = ("result", run_id, part.tool, str(part.tokens))
                        self._ranges.pop(key, None)

    def renew(self) -> None:
        """From now on every key has a text that it did not have before."""
        self._ranges.clear()

    def _range(self, key: tuple[str, ...], tokens: int) -> range:
        known = self._ranges.get(key)
        if known is None:
            if self._next + tokens > _MOST_ID:
                self._next = _FIRST_ID  # what stood there is long evicted
            known = self._ranges[key] = range(self._next, self._next + tokens)
            self._next += tokens
        elif len(known) != tokens:
            raise UsageError(
                f"the text {key[-1]!r} has {len(known)} tokens in one prompt and {tokens} in "
                "another",
                hint="Equal keys are equal text: give the other one a key of its own",
            )
        return known


class PromptIds:
    """The ids of one call's prompt, as far as they are known.

    Args:
        ids: Token ids of all texts.
        run_id: Run of the call.
        call: The call.
        outputs: Length of each call's output.
    """

    __slots__ = ("_at", "_ids", "_outputs", "_parts", "_run_id")

    def __init__(
        self, ids: TokenIds, run_id: RunId, call: TraceCall, outputs: Mapping[str, int]
    ) -> None:
        self._ids = ids
        self._run_id = run_id
        self._outputs = outputs
        self._parts: list[Part | int] = [*ids.start]
        for role, message in call.prompt:
            self._parts.append(HEADER_IDS[role])
            self._parts.extend(message)
            self._parts.append(END_ID)
        self._parts.append(HEADER_IDS["assistant"])
        self._at = 0

    @property
    def complete(self) -> bool:
        """Whether `known` has given all of it."""
        return self._at == len(self._parts)

    def known(self, ended: frozenset[str] | set[str]) -> tuple[int, ...]:
        """The ids behind those given before, up to the first part that is pending.

        Args:
            ended: Names of the nodes whose values are there.
        """
        found: list[int] = []
        while self._at < len(self._parts):
            part = self._parts[self._at]
            if isinstance(part, int):
                found.append(part)
            elif isinstance(part, Piece):
                found += self._ids.piece(part)
            elif isinstance(part, OutputOf):
                if part.call not in ended:
                    break
                found += self._ids.output(self._run_id, part.call, self._outputs[part.call])
            else:
                if part.tool not in ended:
                    break
                found += self._ids.result(self._run_id, part.tool, part.tokens)
            self._at += 1
        return tuple(found)
