"""Types of all kinds, declared and walked: `python tests/fuzz/declared_types.py [types] [walks]`.

Each type is declared as an output without `check=True` and with it. One that is taken is walked by
the masks of the embedded model's vocabulary, uniformly, and each text is read by the reader that
programs use. Printed are the outcomes, and each fault with its type.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np

from agentrt import embedded
from agentrt.base.errors import ConstraintError
from agentrt.base.record import record
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.base.vocabulary import Vocab
from agentrt.program.output import OutputSpec, value_of
from agentrt.prompt import Codec
from agentrt.structured import CompiledConstraint, bitmask_words
from agentrt.structured.sandbox.service import CompileService
from tests.fuzz.rounds import SEED, dice_of
from tests.fuzz.type_draw import Drawn, draw_types, impossible

WALKS = 30
MOST_TOKENS = 120
MOST_CLOSING_TOKENS = 2_000
RETRY_TOKENS = 30
FAULTS = frozenset({"unreadable", "foreign", "no end"})


@record
class Verdict:
    """What became of a type, one way of declaring it.

    Attributes:
        outcome: `read`, `refused`, `failed check`, or one of `FAULTS`.
        reason: The message of an error, with the text that led to it.
        texts: Number of texts that were read.
    """

    outcome: str
    reason: str = ""
    texts: int = 0


class Walker:
    """Declares types and walks their grammars.

    Args:
        walks: Number of texts a type.
    """

    def __init__(self, walks: int = WALKS) -> None:
        self._walks = walks
        self._vocab = Codec.load(embedded.path()).vocab
        self._service = CompileService()

    def close(self) -> None:
        """End the processes."""
        self._service.close()

    def verdict(self, form: Any, dice: Random, *, check: bool) -> Verdict:
        """Declare a type, and read texts of its grammar."""
        try:
            output = value_of(form, check=check)
        except ConstraintError as refused:
            return Verdict("refused", refused.message)
        except Exception as error:
            return Verdict("foreign", f"{type(error).__name__}: {error}")
        if output.constraint is None:
            return self._read(output, [text.decode() for text in FREE_TEXTS])
        constraint = self._service.compile(output.constraint, self._vocab, JSON_ARRAY_FRAME)
        return self._read(output, self._texts(constraint, dice))

    def _texts(self, constraint: CompiledConstraint, dice: Random) -> Iterable[str | None]:
        for _ in range(self._walks):
            text = random_text(dice, constraint, self._vocab)
            yield None if text is None else text.decode()

    def _read(self, output: OutputSpec, texts: Iterable[str | None]) -> Verdict:
        read = 0
        for text in texts:
            if text is None:
                return Verdict("no end", output.name, read)
            try:
                consume(output.parse(text))
                read += 1
            except ValueError as error:
                if not output.checked:
                    return Verdict("unreadable", f"{text[:300]!r}: {error}", read)
            except Exception as error:
                return Verdict("foreign", f"{text[:300]!r}: {type(error).__name__}: {error}", read)
        return Verdict("read" if read else "failed check", "", read)


FREE_TEXTS = (b"", b"x", b"two\nlines", "é€😀".encode())


def consume(value: Any) -> None:
    """Read what is read late: the items of a generator."""
    if type(value).__name__ == "ValidatorIterator":
        list(value)


def random_text(dice: Random, constraint: CompiledConstraint, vocab: Vocab) -> bytes | None:
    """A text drawn uniformly under the masks, closed after a while; None if it finds no end."""
    state, row = constraint.start(), np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    written: list[int] = []
    closes_at = dice.randint(1, MOST_TOKENS)
    while len(written) < MOST_CLOSING_TOKENS:
        row[:] = -1
        state.fill_bitmask(row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: len(vocab.token_bytes)]
        token = int(dice.choice(np.flatnonzero(bits)))
        if token in vocab.eos_ids:
            return b"".join(vocab.token_bytes[token] for token in written)
        assert state.advance([token]) == 1, "the mask allows a token that is refused"
        written.append(token)
        closes = len(written) >= closes_at and (len(written) - closes_at) % RETRY_TOKENS == 0
        closing = state.completion(MOST_CLOSING_TOKENS) if closes else None
        if closing is not None:
            assert state.advance(closing) == len(closing)
            assert state.can_stop(), "the completion is none"
            return b"".join(vocab.token_bytes[token] for token in (*written, *closing))
    return None


@record
class Table:
    """Outcomes of some types, without and with `check=True`.

    Attributes:
        plain: Number of types by outcome, without.
        checked: Number of types by outcome, with.
        faults: Each fault with its features.
        refused: Each refusal, with its features.
    """

    plain: Counter[str]
    checked: Counter[str]
    faults: list[str]
    refused: list[str]


def table_of(drawn: Iterable[Drawn], walker: Walker, case: int = 0) -> Table:
    """Declare and walk types."""
    table = Table(Counter(), Counter(), [], [])
    for number, one in enumerate(drawn):
        dice = dice_of(case + number)
        plain = walker.verdict(one.form, dice, check=False)
        checked = walker.verdict(one.form, dice, check=True)
        table.plain[plain.outcome] += 1
        table.checked[checked.outcome] += 1
        for way, verdict in (("", plain), ("check=True ", checked)):
            line = f"{way}{' > '.join(one.features)}: {verdict.reason[:400]}"
            if verdict.outcome in FAULTS:
                table.faults.append(f"{verdict.outcome}: {line}")
            elif verdict.outcome != "read":
                table.refused.append(f"{verdict.outcome}: {line}")
    return table


def main() -> None:
    warnings.simplefilter("ignore")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    walker = Walker(int(sys.argv[2]) if len(sys.argv) > 2 else WALKS)
    for name, drawn in (
        ("types", draw_types(count, Random(SEED))),
        ("types that no text can be of", impossible()),
    ):
        table = table_of(drawn, walker)
        total = table.plain.total()
        print(f"\n{total} {name}, seed {SEED}")
        for way, found in (("without check", table.plain), ("with check", table.checked)):
            shares = (f"{key} {n} ({n / total:.1%})" for key, n in sorted(found.items()))
            print(f"  {way}: {', '.join(shares)}")
        print("", *sorted(table.faults), *sorted(table.refused), sep="\n  ")
    walker.close()


if __name__ == "__main__":
    main()
