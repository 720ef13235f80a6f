"""Prompts: a chat as its engine gets it, and the prefixes that it can no longer share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.record import record
from agentrt.base.segments import Generated, Hole, Segment, Text
from agentrt.program import Chat, Gen, Node
from agentrt.program.prompt_prefix import answer_of, last_answer, links_of, prompt_segments
from agentrt.prompt import Encoded
from agentrt.prompt.large_text import LARGE_CHARACTERS
from agentrt.protocol.backend import MessagePrompt, TokenPrompt
from agentrt.protocol.events import Event, PrefixLost
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.requests.overflow import ContextWindows, is_crowded
from agentrt.runtime.requests.streamed_fills import StreamedFills
from agentrt.runtime.run import Run

if TYPE_CHECKING:
    from agentrt.prompt import Codec


@record
class Prompt:
    """A chat as its engine gets it.

    Attributes:
        sent: Token ids, or messages.
        max_tokens: Most tokens that fit behind it, at most those of the generation.
        constraint: The constraint of the output, with holes while nodes with options are pending.
        crowded: Whether it leaves less than `max_tokens` of the generation.
        losses: Events for tokens that were computed before and cannot be shared.
        source: The node whose unfinished text it takes, or None.
    """

    sent: TokenPrompt | MessagePrompt
    max_tokens: int
    constraint: ConstraintSpec | None
    crowded: bool = False
    losses: tuple[Event, ...] = ()
    source: Node[Any] | None = None

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The known token ids; () for messages."""
        return self.sent.token_ids if isinstance(self.sent, TokenPrompt) else ()

    @property
    def complete(self) -> bool:
        """Whether no part of it is pending, and no option of its output."""
        return self.sent.complete


class LargePrompt(Exception):
    """A prompt has to be encoded in a worker thread first.

    Attributes:
        segments: Segments of the prompt.
        large_texts: Number of large texts among them.
    """

    def __init__(self, segments: list[Segment], large_texts: int) -> None:
        super().__init__(f"{large_texts} large texts")
        self.segments = segments
        self.large_texts = large_texts


def prompt_of(
    run: Run, gen: Gen[Any], engine: ModelRole, windows: ContextWindows, fills: StreamedFills
) -> Prompt:
    """The known part of the prompt and of the constraint of a generation.

    Raises:
        LargePrompt: Large texts of the prompt are not encoded yet.
        ContextOverflow: Not even the smallest valid output fits behind it.
        ConstraintError: An option of the output has no JSON form.
        Exception: The error of an input that failed.
    """
    work = gen.work
    output = work.output
    constraint = output.known_constraint if output.late is not None else output.constraint
    takes = engine.capabilities
    codec = takes.codec
    segments = prompt_segments(work.chat)
    kinds = set(map(type, segments))
    if Generated in kinds:
        segments = [  # a model does not see the reasoning of another one
            segment.without_thinking()
            if isinstance(segment, Generated) and segment.thinking and segment.codec != codec
            else segment
            for segment in segments
        ]
    has_holes = gen.id in run.declared_with_holes
    if engine.codec is None or takes.prompt == "messages":
        source, is_known = None, True
        if takes.holes:  # others get it when all of it is known
            source = fills.begin_hole(run, gen, segments) if has_holes else None
            is_known = Hole not in kinds and not (constraint is not None and constraint.holes)
        messages = MessagePrompt(tuple(segments), work.chat.tools, is_known)
        return Prompt(messages, work.sampling.max_tokens, constraint, source=source)
    large = sum([type(one) is Text and len(one.text) > LARGE_CHARACTERS for one in segments])
    if large > run.encoded_large_texts.get(gen.id, 0):
        raise LargePrompt(segments, large)
    source = fills.begin_hole(run, gen, segments) if has_holes else None
    encoded = engine.codec.encode(
        work.chat.tools, segments, work.chat.history, run.options.cache_salt
    )
    prompt_tokens = len(encoded.token_ids)
    complete = encoded.complete and not (constraint is not None and constraint.holes)
    return Prompt(
        TokenPrompt(encoded.token_ids, complete),
        windows.for_output(engine, gen, prompt_tokens),
        constraint,
        is_crowded(engine, work, prompt_tokens),
        _losses(run, gen, engine.codec, encoded) if complete else (),
        source,
    )


def may_shrink(chat: Chat) -> bool:
    """Whether a prompt of a pending answer in the chat may still be made shorter."""
    answers = (answer_of(link) for link in links_of(chat))
    return any(a is not None and not a.done and a.work.on_overflow for a in answers)


def is_rewritten(chat: Chat) -> bool:
    """Whether the prompt of an answer in the chat was made shorter."""
    answers = (answer_of(link) for link in links_of(chat))
    return any(answer is not None and answer.replaced_prompt for answer in answers)


def _losses(run: Run, gen: Gen[Any], codec: Codec, encoded: Encoded) -> tuple[Event, ...]:
    lost = [(loss.lost_tokens, str(loss.reason)) for loss in encoded.losses]
    before = last_answer(gen.prompt)
    if before is not None and before.prompt.tools != gen.prompt.tools:
        ledger = before.meta.ledger  # tools stand at the root: all that follows is new
        lost.append((ledger.prompt_tokens + ledger.output_tokens, "tools_changed"))
    if gen.replaced_prompt is not None and (cut := _cut(gen.replaced_prompt, codec, encoded)):
        lost.append((cut, "overflow"))
    return tuple(PrefixLost(run.run_id, gen.id, *one, run.now_s()) for one in lost)


def _cut(replaced: Chat, codec: Codec, encoded: Encoded) -> int:
    """Tokens computed for a chat that are no prefix of its shorter version."""
    before = last_answer(replaced)
    if before is None:
        return 0
    known = codec.encode(replaced.tools, prompt_segments(replaced), replaced.history).token_ids
    shared = 0
    for old, new in zip(known, encoded.token_ids, strict=False):
        if old != new:
            break
        shared += 1
    ledger = before.meta.ledger
    return max(0, ledger.prompt_tokens + ledger.output_tokens - shared)
