"""The mix of transcripts that the models are trained on, each drawn from its own seed."""

import random
from collections.abc import Callable

from corpus import advisor, arithmetic, extract, finance, react
from corpus.example import Example

SHARES: dict[str, tuple[Callable[[random.Random], Example], float]] = {
    "finance": (finance.example, 0.42),
    "react": (react.example, 0.15),
    "vote": (arithmetic.vote, 0.09),
    "tree": (arithmetic.tree, 0.13),
    "advisor": (advisor.example, 0.10),
    "extract": (extract.example, 0.11),
}


def draw(seed: int, index: int) -> Example:
    """Transcript `index` of the corpus that `seed` names; the same arguments give the same transcript."""
    rng = random.Random(f"{seed}:{index}")
    kinds = [*SHARES]
    kind = rng.choices(kinds, [SHARES[k][1] for k in kinds])[0]
    return SHARES[kind][0](rng)
