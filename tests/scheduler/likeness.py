"""Whether two states are alike, part by part, and a `decide` that checks it of what it is given."""

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any

from agentrt.scheduler import Decision, State, decide


def decide_alike(state: State, now_s: float) -> tuple[Decision, ...]:
    """Decides, and holds the state to a copy that was taken before."""
    before = copy.deepcopy(state)
    decisions = decide(state, now_s)
    assert differences(before, state) == [], "deciding changes nothing"
    return decisions


def differences(one: Any, other: Any) -> list[str]:
    """Where two graphs of objects differ: values, order, types, or what is shared with what."""
    met: dict[int, int] = {}
    todo = [("state", one, other)]
    found: list[str] = []
    while todo:
        where, left, right = todo.pop()
        if id(left) in met:
            if met[id(left)] != id(right):
                found.append(f"{where} is another object")
            continue
        if type(left) is not type(right):
            found.append(f"{where}: {left!r} is now {right!r}")
            continue
        lefts, rights = list(parts(left)), list(parts(right))
        if not lefts and not rights:
            if not is_ours(left) and left != right:
                found.append(f"{where}: {left!r} is now {right!r}")
            continue
        met[id(left)] = id(right)
        if [name for name, _ in lefts] != [name for name, _ in rights]:
            found.append(f"{where} has other parts")
        for (name, a), (_, b) in zip(lefts, rights, strict=False):
            todo.append((f"{where}{name}", a, b))
    return found


def is_ours(value: Any) -> bool:
    """Whether its class is this package's: most of those compare by identity."""
    return type(value).__module__.startswith("agentrt.")


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object consists of, by name and in order; nothing of a plain value."""
    if isinstance(value, dict):
        for index, (key, item) in enumerate(value.items()):
            yield f".key{index}", key
            yield f"[{index}]", item
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif is_ours(value):
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in [*names, *vars(value)] if hasattr(value, "__dict__") else names:
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)
