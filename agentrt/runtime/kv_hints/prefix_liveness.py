"""Prefixes that engines have computed, and which of them a program can still continue.

A chat is an immutable value, so a chat that is no longer referenced can no longer be continued. The
garbage collector reports which prefixes became unreachable; a node in flight references its chat
like code does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentrt.base.record import record
from agentrt.program import Chat, Gen
from agentrt.program.prompt_prefix import (
    answer_of,
    last_answer,
    prompt_segments,
    since_answer,
)
from agentrt.runtime.model_role import ModelRole

_Ref = weakref.ref[Any]
_Key = tuple[str, str, int, str]
"""Role, adapter, serial of the chat, salt."""


@dataclass(slots=True, eq=False)
class SentPrompt:
    """A prompt that was sent to an engine.

    Attributes:
        engine: Engine that computed it.
        token_ids: Tokens of the prompt.
        cache_salt: Salt of the run.
        chat: Weak reference to the chat that it was encoded from.
        shorter: Weak references to the chats that this one extends, back to the last answer, the
            longest first.
        before: The answer that it continues, or None.
    """

    engine: ModelRole
    token_ids: tuple[int, ...]
    cache_salt: str
    chat: _Ref
    shorter: tuple[_Ref, ...]
    before: AnsweredPrompt | None

    @property
    def tokens(self) -> int:
        """Length of the prompt."""
        return len(self.token_ids)


@dataclass(slots=True, eq=False)
class AnsweredPrompt:
    """A prompt and the answer that was given to it.

    Attributes:
        prompt: The prompt.
        gen: Weak reference to the node of the answer.
        output_ids: Tokens of the answer.
    """

    prompt: SentPrompt
    gen: _Ref
    output_ids: tuple[int, ...]

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Tokens of the prompt and of the answer."""
        return self.prompt.token_ids + self.output_ids

    @property
    def tokens(self) -> int:
        """Length of both."""
        return self.prompt.tokens + len(self.output_ids)


@record
class DeadPrefix:
    """A prefix that no program can continue.

    Attributes:
        engine: Engine that computed it.
        token_ids: Whole prefix.
        from_tokens: Tokens at its start that a program can still continue.
        cache_salt: Salt of its runs.
    """

    engine: ModelRole
    token_ids: tuple[int, ...]
    from_tokens: int
    cache_salt: str


class PrefixLiveness:
    """Prompts and answers that may still be continued, and those that just became unreachable."""

    def __init__(self) -> None:
        self._prompts: dict[_Key, SentPrompt] = {}
        self._answers: dict[int, AnsweredPrompt] = {}  # by the identity of the node, while it lives
        self._refs: dict[int, _Ref] = {}  # their callbacks report what became unreachable
        self._gone_answers: list[AnsweredPrompt] = []
        self._gone_prompts: list[SentPrompt] = []
        self._lengths: weakref.WeakKeyDictionary[Chat, int] = weakref.WeakKeyDictionary()
        self._serial = 0

    def __len__(self) -> int:
        """How many prompts and answers are watched."""
        return len(self._refs)

    def note_prompt(
        self, engine: ModelRole, chat: Chat, token_ids: tuple[int, ...], cache_salt: str = ""
    ) -> SentPrompt:
        """Remember a prompt that was sent, or that has grown."""
        key = (engine.role, engine.adapter, chat.serial, cache_salt)
        known = self._prompts.get(key)
        if known is None:
            before = last_answer(chat)
            known = self._prompts[key] = SentPrompt(
                engine,
                token_ids,
                cache_salt,
                weakref.ref(chat),
                tuple(map(weakref.ref, since_answer(chat)[1:])),
                None if before is None else self.answer_of(before),
            )
            self._watch(chat, lambda: self._gone_prompts.append(self._prompts.pop(key)))
        elif len(token_ids) > known.tokens:
            known.token_ids = token_ids
        return known

    def note_answer(
        self,
        engine: ModelRole,
        gen: Gen[Any],
        prompt_ids: tuple[int, ...],
        output_ids: tuple[int, ...],
        cache_salt: str = "",
    ) -> AnsweredPrompt:
        """Remember the answer of a generation."""
        prompt = self.note_prompt(engine, gen.prompt, prompt_ids, cache_salt)
        key = id(gen)
        answer = self._answers[key] = AnsweredPrompt(prompt, weakref.ref(gen), output_ids)
        self._watch(gen, lambda: self._gone_answers.append(self._answers.pop(key)))
        return answer

    def answer_of(self, gen: Gen[Any]) -> AnsweredPrompt | None:
        """The remembered answer of a generation, or None."""
        return self._answers.get(id(gen))

    def pop_dead(self) -> list[DeadPrefix]:
        """Prefixes that became unreachable since the last call, each of their ends once."""
        if not self._gone_answers and not self._gone_prompts:
            return []
        answers, self._gone_answers = self._gone_answers, []
        prompts, self._gone_prompts = self._gone_prompts, []
        dead: list[DeadPrefix] = []
        covered: set[int] = set()
        for answer in sorted(answers, key=lambda one: -one.tokens):
            if id(answer) not in covered:
                prompt = answer.prompt
                is_live = prompt.chat() is not None
                from_tokens = prompt.tokens if is_live else self._live_tokens(prompt, covered)
                dead.append(_dead(prompt, answer.token_ids, from_tokens))
        for prompt in sorted(prompts, key=lambda one: -one.tokens):
            if id(prompt) not in covered:
                from_tokens = self._live_tokens(prompt, covered)
                dead.append(_dead(prompt, prompt.token_ids, from_tokens))
        return dead

    def _live_tokens(self, prompt: SentPrompt, covered: set[int]) -> int:
        """Tokens at the start of a dead prompt that a program can still continue.

        Args:
            prompt: The prompt.
            covered: Collects the prompts and answers behind those tokens, by identity.
        """
        at = prompt
        while True:
            covered.add(id(at))
            for link in at.shorter:
                chat = link()
                if chat is not None and (answer_of(chat) is None or at.before is None):
                    return min(prompt.tokens, self._tokens_of(at, chat))
            before = at.before
            if before is None:
                return 0
            if before.gen() is not None:
                return before.tokens
            covered.add(id(before))
            if before.prompt.chat() is not None:
                return before.prompt.tokens
            at = before.prompt

    def _tokens_of(self, sent: SentPrompt, chat: Chat) -> int:
        """Length of the prompt of a chat that `sent` extends, and that was perhaps never sent."""
        engine = sent.engine
        known = self._prompts.get((engine.role, engine.adapter, chat.serial, sent.cache_salt))
        if known is not None:
            return known.tokens
        length = self._lengths.get(chat)
        if length is None:
            assert engine.codec is not None
            encoded = engine.codec.encode(chat.tools, prompt_segments(chat), chat.history)
            length = self._lengths[chat] = len(encoded.token_ids)
        return length

    def _watch(self, thing: Any, end: Callable[[], None]) -> None:
        """Call `end` when `thing` is garbage."""
        self._serial += 1
        serial = self._serial

        def gone(_: _Ref) -> None:
            del self._refs[serial]
            end()

        self._refs[serial] = weakref.ref(thing, gone)


def _dead(prompt: SentPrompt, token_ids: tuple[int, ...], from_tokens: int) -> DeadPrefix:
    return DeadPrefix(prompt.engine, token_ids, from_tokens, prompt.cache_salt)
