"""Places at which tokens are drawn in a step: behind each sequence, and behind each draft token."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass

from agentrt.engine.sampling.sampler import SamplingRow
from agentrt.engine.sequence.draft import Verification
from agentrt.engine.sequence.sequence import Sequence


@dataclass(slots=True, eq=False)
class DrawRow:
    """A place at which a token is drawn.

    Attributes:
        sequence: The sequence.
        ahead: Tokens of a draft between its last token and the place.
    """

    sequence: Sequence
    ahead: Rows[int] = ()

    @property
    def output_tokens(self) -> int:
        """Tokens of the output before the place."""
        return self.sequence.output_tokens + len(self.ahead)

    def sampling_row(self) -> SamplingRow:
        """Parameters, random position and tokens that count for penalties."""
        sequence = self.sequence
        prompt = sequence.prompt_tokens
        params = sequence.request.sampling
        has_penalties = (
            params.repetition_penalty != 1.0 or params.presence_penalty or params.frequency_penalty
        )
        return SamplingRow(
            params=params,
            position=self.output_tokens,
            prompt=sequence.tokens[:prompt] if has_penalties else (),
            output=[*sequence.tokens[prompt:], *self.ahead] if has_penalties else (),
        )


def draw_rows(
    sequences: Rows[Sequence], drafted: Mapping[Sequence, Verification]
) -> tuple[list[DrawRow], Rows[int]]:
    """Rows of a step in the order of its logits, and the first row of each sequence.

    A draft of k tokens adds k rows behind the first row of its sequence. Each verification is given
    the first row of its sequence.
    """
    if not drafted:
        return [DrawRow(sequence) for sequence in sequences], range(len(sequences))
    rows: list[DrawRow] = []
    starts: list[int] = []
    for sequence in sequences:
        starts.append(len(rows))
        rows.append(DrawRow(sequence))
        if (one := drafted.get(sequence)) is not None:
            one.first_row = starts[-1]
            token_ids = one.draft.token_ids
            rows += [DrawRow(sequence, token_ids[: at + 1]) for at in range(len(token_ids))]
    return rows, starts
