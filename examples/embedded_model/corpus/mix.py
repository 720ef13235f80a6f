"""The mix of transcripts that the models are trained on, each drawn from its own seed."""

import random
from collections.abc import Callable

from corpus import advisor, arithmetic, extract, finance, react
from corpus.example import Example

SHARES: dict[str, tuple[Callable[[random.Random], Example], float]] = {
    "finance": (finance.example, 0.52),
    "react": (react.example, 0.12),
    "vote": (arithmetic.vote, 0.08),
    "tree": (arithmetic.tree, 0.11),
    "advisor": (advisor.example, 0.08),
    "extract": (extract.example, 0.09),
}


def draw(seed: int, index: int) -> Example:
    """Transcript `index` of the corpus that `seed` names; the same arguments give the same transcript."""
    rng = random.Random(f"{seed}:{index}")
    kinds = [*SHARES]
    kind = rng.choices(kinds, [SHARES[k][1] for k in kinds])[0]
    return SHARES[kind][0](rng)
