"""Prefixes that engines have computed, and which of them a program can still go on from.

A chat is an immutable value: what nobody holds any more nobody can continue. So the garbage
collector tells what became unreachable; a node that is under way holds its chat like code does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from agentrt.base.record import record
from agentrt.program import Chat, Gen
from agentrt.runtime.model_role import ModelRole

_Ref = weakref.ref[Any]
_Key = tuple[str, int, str]
"""Role, serial of the chat, salt."""


class SentPrompt:
    """A prompt that was sent.

    Attributes:
        engine: Who computed it.
        token_ids: It.
        cache_salt: Salt of the run.
        chat: What it was written from, while somebody holds that.
        shorter: The chats that this one grew from, down to the last answer, the longest first.
        before: The answer that it goes on from, or None.
    """

    __slots__ = ("__weakref__", "before", "cache_salt", "chat", "engine", "shorter", "token_ids")

    def __init__(
        self,
        engine: ModelRole,
        chat: Chat,
        token_ids: tuple[int, ...],
        before: AnsweredPrompt | None,
        cache_salt: str,
    ) -> None:
        self.engine = engine
        self.cache_salt = cache_salt
        self.token_ids = token_ids
        self.before = before
        self.chat: _Ref = weakref.ref(chat)
        self.shorter: tuple[_Ref, ...] = tuple(map(weakref.ref, chat.since_answer()[1:]))

    @property
    def tokens(self) -> int:
        """Its length."""
        return len(self.token_ids)


class AnsweredPrompt:
    """A prompt and the answer that was given to it.

    Attributes:
        asked: The prompt.
        gen: The node of the answer, while somebody holds it.
        output_ids: The answer.
    """

    __slots__ = ("asked", "gen", "output_ids")

    def __init__(self, asked: SentPrompt, gen: Gen[Any], output_ids: tuple[int, ...]) -> None:
        self.asked = asked
        self.gen: _Ref = weakref.ref(gen)
        self.output_ids = output_ids

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The whole of it."""
        return self.asked.token_ids + self.output_ids

    @property
    def tokens(self) -> int:
        """Its length."""
        return self.asked.tokens + len(self.output_ids)


@record
class DeadPrefix:
    """A prefix that no program can go on from.

    Attributes:
        engine: Engine that computed it.
        token_ids: Whole prefix.
        from_tokens: Tokens at its start that a program can still go on from.
        cache_salt: Salt of its runs.
    """

    engine: ModelRole
    token_ids: tuple[int, ...]
    from_tokens: int
    cache_salt: str


class PrefixLiveness:
    """Those that are known, by what they were written from."""

    def __init__(self) -> None:
        self._asked: dict[_Key, SentPrompt] = {}
        self._answered: dict[
            int, AnsweredPrompt
        ] = {}  # by the identity of the node, while it lives
        self._refs: dict[int, _Ref] = {}  # what tells of the end of each
        self._gone_answers: list[AnsweredPrompt] = []
        self._gone_chats: list[SentPrompt] = []
        self._spelled: weakref.WeakKeyDictionary[Chat, int] = weakref.WeakKeyDictionary()
        self._serial = 0

    def __len__(self) -> int:
        """How many are watched."""
        return len(self._refs)

    def asked(
        self, engine: ModelRole, chat: Chat, token_ids: tuple[int, ...], cache_salt: str = ""
    ) -> SentPrompt:
        """A prompt was sent, or is longer now."""
        key = (engine.role, chat.serial, cache_salt)
        known = self._asked.get(key)
        if known is None:
            before = chat.last_answer
            answer = None if before is None else self.answer_of(before)
            known = self._asked[key] = SentPrompt(engine, chat, token_ids, answer, cache_salt)
            self._watch(chat, lambda: self._chat_gone(key))
        elif len(token_ids) > known.tokens:
            known.token_ids = token_ids
        return known

    def answered(
        self,
        engine: ModelRole,
        gen: Gen[Any],
        prompt_ids: tuple[int, ...],
        output_ids: tuple[int, ...],
        cache_salt: str = "",
    ) -> AnsweredPrompt:
        """A generation has its answer."""
        asked = self.asked(engine, gen.prompt, prompt_ids, cache_salt)
        made = self._answered[id(gen)] = AnsweredPrompt(asked, gen, output_ids)
        key = id(gen)
        self._watch(gen, lambda: self._answer_gone(key))
        return made

    def answer_of(self, gen: Gen[Any]) -> AnsweredPrompt | None:
        """What is known of a generation's answer."""
        return self._answered.get(id(gen))

    def take_dead(self) -> list[DeadPrefix]:
        """What nobody can go on from any more since this was last asked, each end once."""
        if not self._gone_answers and not self._gone_chats:
            return []
        answers, self._gone_answers = self._gone_answers, []
        chats, self._gone_chats = self._gone_chats, []
        dead: list[DeadPrefix] = []
        covered: set[int] = set()
        for answer in sorted(answers, key=lambda one: -one.tokens):
            if id(answer) in covered:
                continue
            asked = answer.asked
            held = asked.chat() is not None
            from_tokens = asked.tokens if held else self._reach(asked, covered)
            dead.append(DeadPrefix(asked.engine, answer.token_ids, from_tokens, asked.cache_salt))
        for asked in sorted(chats, key=lambda one: -one.tokens):
            if id(asked) not in covered:
                from_tokens = self._reach(asked, covered)
                dead.append(
                    DeadPrefix(asked.engine, asked.token_ids, from_tokens, asked.cache_salt)
                )
        return dead

    def _reach(self, asked: SentPrompt, covered: set[int]) -> int:
        """Up to which of its tokens somebody can still go on; what lies behind is `covered`."""
        at: SentPrompt = asked
        while True:
            covered.add(id(at))
            for link in at.shorter:
                chat = link()
                if chat is not None and (chat.answer is None or at.before is None):
                    return min(asked.tokens, self._tokens_of(at, chat))
            before = at.before
            if before is None:
                return 0
            if before.gen() is not None:
                return before.tokens
            covered.add(id(before))
            if before.asked.chat() is not None:
                return before.asked.tokens
            at = before.asked

    def _tokens_of(self, sent: SentPrompt, chat: Chat) -> int:
        """Length of the prompt of a chat that `sent` grew from, and that was perhaps never sent."""
        engine = sent.engine
        known = self._asked.get((engine.role, chat.serial, sent.cache_salt))
        if known is not None:
            return known.tokens
        spelled = self._spelled.get(chat)
        if spelled is None:
            assert engine.codec is not None
            encoded = engine.codec.encode(chat.tools, chat.segments(), chat.history)
            spelled = self._spelled[chat] = len(encoded.token_ids)
        return spelled

    def _watch(self, thing: Any, end: Callable[[], None]) -> None:
        """Call `end` when nobody holds `thing` any more."""
        self._serial += 1
        serial = self._serial

        def gone(_: _Ref) -> None:
            del self._refs[serial]
            end()

        self._refs[serial] = weakref.ref(thing, gone)

    def _answer_gone(self, key: int) -> None:
        self._gone_answers.append(self._answered.pop(key))

    def _chat_gone(self, key: _Key) -> None:
        self._gone_chats.append(self._asked.pop(key))
