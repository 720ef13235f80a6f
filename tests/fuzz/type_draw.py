"""Random types: every feature at least three times, nested."""

from collections.abc import Iterator
from random import Random
from typing import Any, get_args

from pydantic_core import core_schema

from agentrt.base.record import record
from tests.fuzz.impossible_types import IMPOSSIBLE
from tests.fuzz.type_features import COMPOUNDS, FEATURES

TIMES = 3
KINDS = frozenset(get_args(core_schema.CoreSchemaType))
PLAIN = (int, str, bool, float, list[int])
MOST_DEPTH = 3


@record
class Drawn:
    """A type.

    Attributes:
        form: The type.
        features: Features of it, the outermost first.
    """

    form: Any
    features: tuple[str, ...]


def draw_types(count: int, dice: Random) -> Iterator[Drawn]:
    """Types that have each feature at least three times, if `count` allows.

    Args:
        count: Number of types.
        dice: The chances.
    """
    deck = [name for name in FEATURES for _ in range(TIMES)]
    dice.shuffle(deck)
    sizes = [len(deck) // count + (at < len(deck) % count) for at in range(count)]
    for size in sizes:
        names = [deck.pop() for _ in range(size)] or [dice.choice(list(FEATURES))]
        names.sort(key=lambda name: name not in COMPOUNDS)
        names = dice.choices(PLAIN_COMPOUNDS, k=dice.randint(0, MOST_DEPTH - 1)) + names
        yield Drawn(nested(names, dice), tuple(names))


PLAIN_COMPOUNDS = ("list", "nullable", "dict", "model", "tuple", "typed-dict", "dataclass made")


def nested(names: list[str], dice: Random) -> Any:
    """A type with these features; types that hold no other stand beside each other."""
    form: Any = dice.choice(PLAIN)
    is_first = True
    for name in reversed(names):
        if name in COMPOUNDS or is_first:
            form = FEATURES[name](dice, form)
        else:
            form = tuple[FEATURES[name](dice, form), form]  # type: ignore[misc]
        is_first = False
    return form


def kinds_in(core: Any) -> set[str]:
    """The kinds of core schema that a core schema has."""
    if isinstance(core, list | tuple):
        return set().union(*map(kinds_in, core))
    if not isinstance(core, dict):
        return set()
    here = {core["type"]} & KINDS if isinstance(core.get("type"), str) else set()
    parts = (part for name, part in core.items() if name not in ("metadata", "serialization"))
    return here.union(*map(kinds_in, parts))


def impossible() -> Iterator[Drawn]:
    """Types that must be refused."""
    for name, (_, forms) in IMPOSSIBLE.items():
        yield from (Drawn(form, (name,)) for form in forms)
