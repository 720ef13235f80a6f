"""Random programs for `made_up.play`."""

from __future__ import annotations

from random import Random

from tests.oracles.statements import (
    CallStatement,
    Race,
    Statement,
    ThinkStatement,
    WaitStatement,
    Work,
)


def random_body(rng: Random, *, statements: int = 8, depth: int = 2) -> tuple[Statement, ...]:
    """A program's code: whatever it names has been declared before.

    Durations are whole milliseconds, often zero, so that many things happen at one instant.
    """
    return _Inventor(rng).body(statements, depth)


class _Inventor:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._items: list[int] = []  # of each node made so far
        self._known: list[int] = []  # nodes that others may need

    def body(self, statements: int, depth: int) -> tuple[Statement, ...]:
        made: list[Statement] = []
        for _ in range(self._rng.randint(1, statements)):
            made += self._statements(depth)
        return tuple(made)

    def _statements(self, depth: int) -> list[Statement]:
        choice = self._rng.randint(0, 10)
        if choice <= 1 and self._known:
            node = self._rng.choice(self._known)
            items = self._items[node]
            return [WaitStatement(node, self._rng.randrange(items) if items and choice else None)]
        if choice == 2:
            return [ThinkStatement(self._seconds())]
        if choice == 3 and depth:
            inner = self.body(4, depth - 1)
            self._know(items=0)
            return [CallStatement(inner)]
        if choice == 4:
            return self._streamed_plan()
        if choice == 5:
            known = list(self._known)
            race = Race(tuple(self._work() for _ in range(self._rng.randint(2, 3))))
            self._known = known
            return [race]
        return [self._work()]

    def _streamed_plan(self) -> list[Statement]:
        """A generation, each of whose items starts a tool as soon as it is complete."""
        plan = len(self._items)
        items = self._rng.randint(1, 4)
        made: list[Statement] = [self._work(kind="generate", items=items)]
        for item in range(items):
            made += [WaitStatement(plan, item), self._work(kind="tool", plan=(plan, item))]
        return made

    def _work(self, kind: str = "", items: int = 0, plan: tuple[int, int] | None = None) -> Work:
        rng = self._rng
        many = rng.randint(0, 3) if self._known and plan is None else 0
        deps = tuple(sorted({rng.choice(self._known) for _ in range(many)}))
        self._know(items)
        return Work(
            kind or rng.choice(("generate", "tool")),
            deps=deps,
            plan=plan,
            before_s=self._seconds() / 10,
            queue_s=self._seconds(),
            early_s=self._seconds(),
            prefill_s=self._seconds(),
            decode_s=self._seconds() * 4,
            after_s=self._seconds() / 10,
            items=items,
        )

    def _know(self, items: int) -> None:
        self._known.append(len(self._items))
        self._items.append(items)

    def _seconds(self) -> float:
        return self._rng.choice((0, 0, 1, 2, 3, 5, 8)) / 1000
