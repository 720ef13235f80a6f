"""Prompts that do not fit the context window, found before anything is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentrt.base.errors import ContextOverflow, PromptPart
from agentrt.base.segments import Close, Generated, Hole, Open, ResultOf, Segment, Text
from agentrt.program import Chat, Gen, GenerateWork, Node, Overflow
from agentrt.program.overflow import target_tokens
from agentrt.program.prompt_prefix import pieces_of, prompt_segments
from agentrt.runtime.model_role import ModelRole

if TYPE_CHECKING:
    from agentrt.prompt import Codec
    from agentrt.structured import CompileCache

SHOWN_PARTS = 6


class ContextWindows:
    """Checks prompts against the context windows of models."""

    def __init__(self) -> None:
        self._compiled: CompileCache | None = None

    def for_output(self, engine: ModelRole, gen: Gen[Any], prompt_tokens: int) -> int:
        """Tokens that an output may take, at most `max_tokens`.

        Raw text may have any length from one token on: the engine cuts it at the window.

        Raises:
            ContextOverflow: Not even the smallest valid output fits behind the prompt.
        """
        work = gen.work
        wanted, window_tokens = work.sampling.max_tokens, engine.window_tokens
        if not window_tokens or prompt_tokens + wanted <= window_tokens:
            return wanted
        assert engine.codec is not None
        is_raw = work.output.kind == "raw"
        least = 1 if is_raw else self.least_tokens(engine, work)
        if prompt_tokens + least <= window_tokens:
            return wanted if is_raw else window_tokens - prompt_tokens
        parts = parts_of(engine.codec, work.chat)
        raise ContextOverflow(
            f"{gen.label} needs {prompt_tokens + least:,} of {window_tokens:,} tokens: "
            f"a prompt of {prompt_tokens:,} and an output of at least {least}\n{table_of(parts)}",
            needed_tokens=prompt_tokens + least,
            window_tokens=window_tokens,
            parts=parts,
            hint="Shorten the largest part, give on_overflow=trim, or use a larger window",
            where=gen.site,
        )

    def overflow(self, engine: ModelRole, gen: Gen[Any], segments: Sequence[Segment]) -> Overflow:
        """The argument of `on_overflow` for a complete prompt."""
        work, codec, window_tokens = gen.work, engine.codec, engine.window_tokens
        if codec is None or not window_tokens:  # only the engine counts, and it has refused
            return Overflow(work.chat, max_tokens=work.sampling.max_tokens)
        tools = work.chat.tools

        def count(chat: Chat) -> int:
            encoded = codec.encode(tools, prompt_segments(chat), chat.history)
            if encoded.complete:
                return len(encoded.token_ids)
            return sum(codec.sizes(tools, prompt_segments(chat), chat.history))

        return Overflow(
            work.chat,
            parts_of(codec, work.chat),
            len(codec.encode(tools, segments, work.chat.history).token_ids),
            window_tokens,
            work.sampling.max_tokens,
            self.least_tokens(engine, work),
            count,
        )

    def least_tokens(self, engine: ModelRole, work: GenerateWork[Any]) -> int:
        """Length of the smallest valid output; 1 while options of it are pending."""
        constraint = work.output.known_constraint
        if constraint is None or constraint.holes:
            return 1
        from agentrt.structured import CompileCache  # native libraries come along

        assert engine.codec is not None
        if self._compiled is None:
            self._compiled = CompileCache()
        codec = engine.codec
        compiled = self._compiled.get(constraint, codec.vocab, codec.call_frame)
        return compiled.min_tokens or 1


def is_crowded(engine: ModelRole, work: GenerateWork[Any], prompt_tokens: int) -> bool:
    """Whether the prompt leaves less than `max_tokens` and less than half of the window."""
    window_tokens = engine.window_tokens
    if not window_tokens:
        return False
    return prompt_tokens > target_tokens(window_tokens, work.sampling.max_tokens)


def parts_of(codec: Codec, chat: Chat) -> tuple[PromptPart, ...]:
    """The parts of a prompt, the largest first, under names from the program."""
    segments, pieces = prompt_segments(chat), pieces_of(chat)
    sizes = codec.sizes((), segments, chat.history)
    parts: list[PromptPart] = []
    if chat.tools:
        tools = ", ".join(tool.name for tool in chat.tools)
        tool_tokens = sum(codec.sizes(chat.tools, segments, chat.history)) - sum(sizes)
        parts.append(PromptPart(f"description of the tools {tools}", tool_tokens))
    role, about = "", ""
    for segment, piece, tokens in zip(segments, pieces, sizes, strict=True):
        match segment:
            case Open(opened):
                role, about = opened, ""
                continue
            case ResultOf(_, name):
                about = f" result of {name}"
                continue
            case Close():
                continue
            case Text(text):
                start = " ".join(text[:30].split())
                name = f"{role}{about or f' {start!r}'}"
            case Generated():
                name = "generated answer"
            case Hole(node):
                name = f"pending {node}"
            case _:
                name = f"{role}{about}"
        if isinstance(piece, Node) and piece.done:
            name = piece.id.rpartition("/")[2]
        parts.append(PromptPart(name, tokens))
    parts.sort(key=lambda part: -part.tokens)
    return tuple(parts)


def table_of(parts: Sequence[PromptPart]) -> str:
    """The largest parts as a table, a line each."""
    width = max((len(f"{part.tokens:,}") for part in parts), default=1)
    lines = [f"  {part.tokens:>{width},}  {part.name}" for part in parts[:SHOWN_PARTS]]
    if lines:
        lines[0] += "  <- largest"
    return "\n".join(lines)
