"""Prompts that do not fit the window: told before anything is decoded, with what is largest."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.errors import ContextOverflow
from agentrt.program import GenerateWork, Node
from agentrt.prompt import Codec
from agentrt.segments import Close, Generated, Hole, Open, ResultOf, Segment, Text

SHOWN_SEGMENTS = 6


def room_for_output(
    codec: Codec,
    window_tokens: int,
    node: Node[object],
    work: GenerateWork,
    segments: Sequence[Segment],
    prompt_tokens: int,
) -> int:
    """Tokens that the output may take, at most `max_tokens`.

    Raises:
        ContextOverflow: Not even the smallest valid output fits behind the prompt.
    """
    wanted = work.sampling.max_tokens
    if not window_tokens or prompt_tokens + wanted <= window_tokens:
        return wanted
    least = _smallest_output(codec, work)
    if prompt_tokens + least <= window_tokens:
        return window_tokens - prompt_tokens
    raise ContextOverflow(
        f"{node.label} needs {prompt_tokens + least:,} of {window_tokens:,} tokens: "
        f"a prompt of {prompt_tokens:,} and an output of at least {least}\n"
        + _table(codec, work, segments),
        needed_tokens=prompt_tokens + least,
        window_tokens=window_tokens,
        hint="Shorten the largest part, or use a model with a larger window",
        where=node.site,
    )


def _smallest_output(codec: Codec, work: GenerateWork) -> int:
    if work.output.constraint is None:
        return 1
    from agentrt.constraints import compile_constraint  # native libraries come along

    compiled = compile_constraint(work.output.constraint, codec.vocab, codec.call_frame)
    return compiled.min_tokens or 1


def _table(codec: Codec, work: GenerateWork, segments: Sequence[Segment]) -> str:
    """The largest segments, largest first, each with a name that the author knows."""
    sizes = codec.sizes(work.chat.tools, segments)
    rows: list[tuple[int, str]] = []
    role, about = "", ""
    for segment, tokens in zip(segments, sizes, strict=True):
        match segment:
            case Open(opened):
                role, about = opened, ""
            case ResultOf(_, name):
                about = f" result of {name}"
            case Text(text):
                start = " ".join(text[:30].split())
                rows.append((tokens, f"{role}{about or f' {start!r}'}"))
            case Generated():
                rows.append((tokens, "generated answer"))
            case Hole(node):
                rows.append((tokens, f"pending {node}"))
            case Close():
                pass
            case _:
                rows.append((tokens, f"{role}{about}"))
    rows.sort(key=lambda row: -row[0])
    width = max((len(f"{tokens:,}") for tokens, _ in rows), default=1)
    lines = [f"  {tokens:>{width},}  {name}" for tokens, name in rows[:SHOWN_SEGMENTS]]
    if lines:
        lines[0] += "  <- largest"
    return "\n".join(lines)
