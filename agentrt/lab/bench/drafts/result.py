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
        prefill_s: Seconds of steps that computed a part of a prompt.
        decode_s: Seconds of the other steps.
        accepted: Tokens that were drawn as drafted, by source.
        rejected: Tokens computed in vain, by source.
        output_hash: Hash of all outputs.
        cpu_s: CPU seconds of the arm's processes, waits in which they spin included.
    """

    seconds: float
    tokens: int
    steps: int
    rows: int
    prefill_s: float
    decode_s: float
    accepted: Mapping[str, int]
    rejected: Mapping[str, int]
    output_hash: str
    cpu_s: float

    @property
    def token_s(self) -> float:
        """Seconds a token."""
        return self.seconds / self.tokens

    @property
    def other_s(self) -> float:
        """Seconds between the steps: the runtime, tools, grammars, and waits for each other."""
        return max(0.0, self.seconds - self.prefill_s - self.decode_s)


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
    def cpu_ratio(self) -> float:
        """CPU time a token with drafts by that without, over all rounds; 0 if it is unknown.

        Unlike the time it hardly depends on what else the machine does, if one thread computes.
        """
        on, off = (
            sum(one.cpu_s for one in samples) / sum(one.tokens for one in samples)
            for samples in (self.on, self.off)
        )
        return on / off if off else 0.0

    @property
    def figures(self) -> dict[str, Any]:
        """Medians of both arms, and sums over the rounds."""
        return {
            "ratio": asdict(self.ratio),
            "cpu_ratio": self.cpu_ratio,
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
        "prefill_ms": sum(sample.prefill_s for sample in samples) / tokens * 1e3,
        "decode_ms": sum(sample.decode_s for sample in samples) / tokens * 1e3,
        "other_ms": sum(sample.other_s for sample in samples) / tokens * 1e3,
        "cpu_ms": sum(sample.cpu_s for sample in samples) / tokens * 1e3,
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
