"""The points of the bench: a model, a kind of text, and how many outputs are written at once."""

from __future__ import annotations

from itertools import product

from agentrt.base.record import record
from agentrt.lab.arms.served import PAGE_TOKENS
from agentrt.lab.bench.drafts.texts import QUESTIONS, TEXT_KINDS, TextKind
from agentrt.lab.bench.flags import DraftsFlags
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.checkpoints.weights import first_whole_word_id
from agentrt.lab.flags import check_known, names, numbers, require

EMBEDDED = "embedded"


@record
class DraftsPoint:
    """One point.

    Attributes:
        shape: Shape of random weights, or `embedded`.
        text: Kind of the recorded texts; None for the finance program, which writes its own.
        batch: Outputs, or runs of the program, at once.
        dtype: Dtype of the computation.
    """

    shape: str
    text: TextKind | None
    batch: int
    dtype: str

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return f"{self.shape} {self.text or 'finance'} B={self.batch} {self.dtype}"


def points_of(flags: DraftsFlags) -> list[DraftsPoint]:
    """Every combination; the embedded model runs the finance program in place of texts.

    Raises:
        UsageError: A flag is no list, or a text does not fit a shape.
    """
    texts, batches = names(flags.text), numbers(flags.batch, "--batch")
    check_known("--text", texts, TEXT_KINDS)
    found: list[DraftsPoint] = []
    for name in names(flags.shape):
        if name == EMBEDDED:
            asked = (1 + flags.counted) * max(batches)
            require(
                asked <= QUESTIONS,
                f"{asked} questions are more than the {QUESTIONS} of the finance program",
                "Lower --batch or --repeat",
            )
            dtype = flags.dtype or "float32"
            found += [DraftsPoint(name, None, batch, dtype) for batch in batches]
            continue
        shape, tokens = shape_named(name), flags.prompt + flags.new
        words = shape.vocabulary - first_whole_word_id(shape.vocabulary)
        given = f"{flags.prompt} + {flags.new}"
        for most, what in ((words, "different words"), (shape.window_tokens, "tokens")):
            require(
                tokens <= most,
                f"{given} {what} are more than the {most} of {name}",
                "Lower --prompt or --new",
            )
        kinds = [kind for kind in TEXT_KINDS if kind in texts]
        dtype = flags.dtype or "bfloat16"
        found += [DraftsPoint(name, kind, batch, dtype) for kind, batch in product(kinds, batches)]
    return found


def pages_for_rounds(batch: int, tokens: int) -> int:
    """KV pages of two rounds of texts of that length, so that none waits for memory."""
    return 2 * batch * (-(-tokens // PAGE_TOKENS) + 1) + 64
