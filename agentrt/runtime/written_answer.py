"""The answer of a generation as observers are told it."""

from __future__ import annotations

from typing import Any

from agentrt.base.segments import Generated
from agentrt.program import Gen


def answer_so_far(gen: Gen[Any]) -> Generated | None:
    """The answer without its token ids and without the model's frame around its reasoning.

    None if nothing has been written yet.
    """
    written, generated = gen.written, gen.written.generated
    thinking = "".join(written.reasoning).strip() if written.reasoning else generated.thinking
    text = generated.text or "".join(written.chunks)
    if not text and not thinking and not generated.calls:
        return None
    visible = generated.content if generated.text else text
    return Generated(text, (), "", generated.calls, visible, thinking)
