"""Rounds of a point in pairs, the figures over them, and the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

from agentrt.analysis.statistics import Interval, interval, percentile
from agentrt.base.record import record
from agentrt.lab.bench.drafts.points import DraftsPoint
from agentrt.lab.result_file import commit, header, machine

SCHEMA = "agentrt.bench.drafts/1"
OFF, ON = "off", "on"
"""Arms without and with drafts."""

_MIDDLE = partial(percentile, share=0.5)


@record
class DraftsSample:
    """One round of one arm.

    Attributes:
        seconds: Seconds in which the tokens were written.
        tokens: Tokens written.
        steps: Steps of the engine.
        rows: Rows of these steps, drafts included.
        accepted: Tokens that were drawn as drafted, by source.
        rejected: Tokens computed in vain, by source.
        output_hash: Hash of all outputs.
    """

    seconds: float
    tokens: int
    steps: int
    rows: int
    accepted: Mapping[str, int]
    rejected: Mapping[str, int]
    output_hash: str

    @property
    def token_s(self) -> float:
        """Seconds a token."""
        return self.seconds / self.tokens


@record
class PointPairs:
    """Rounds of one point, both arms in each.

    Attributes:
        point: The point.
        off: Samples without drafts.
        on: Samples with drafts, of the same rounds.
    """

    point: DraftsPoint
    off: Sequence[DraftsSample]
    on: Sequence[DraftsSample]

    @property
    def ratio(self) -> Interval:
        """Median over rounds of the time a token with drafts by that without, and its interval."""
        pairs = zip(self.on, self.off, strict=True)
        return interval([one.token_s / other.token_s for one, other in pairs], _MIDDLE)

    @property
    def figures(self) -> dict[str, Any]:
        """Medians of both arms, and sums over the rounds."""
        return {
            "ratio": asdict(self.ratio),
            "off": _figures(self.off),
            "on": _figures(self.on),
        }


def _figures(samples: Sequence[DraftsSample]) -> dict[str, Any]:
    accepted, rejected = Counter[str](), Counter[str]()
    for sample in samples:
        accepted.update(sample.accepted)
        rejected.update(sample.rejected)
    tokens = sum(sample.tokens for sample in samples)
    return {
        "token_ms": median(sample.token_s for sample in samples) * 1e3,
        "tokens_a_step": tokens / max(1, sum(sample.steps for sample in samples)),
        "rows_a_token": sum(sample.rows for sample in samples) / tokens,
        "tokens": tokens,
        "accepted": dict(accepted),
        "rejected": dict(rejected),
    }


def to_json(results: Sequence[PointPairs], speculate_tokens: str) -> dict[str, Any]:
    """The file of the bench, with every sample.

    Args:
        results: Points so far.
        speculate_tokens: Setting of the arm with drafts.
    """
    return {
        **header(SCHEMA),
        "commit": commit(),
        "machine": machine(),
        "speculate_tokens": speculate_tokens,
        "rows": [
            {
                **asdict(one.point),
                "figures": one.figures,
                "samples": {
                    OFF: [asdict(sample) for sample in one.off],
                    ON: [asdict(sample) for sample in one.on],
                },
            }
            for one in results
        ],
    }
