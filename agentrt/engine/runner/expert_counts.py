"""Expert load by request: which counters a sequence has, and when they are read."""

from __future__ import annotations

from agentrt.engine.models.native.expert_load import ExpertLoad
from agentrt.engine.sequence.sequence import Sequence


class ExpertCounts:
    """Groups of counters for the sequences that have run and are not finished.

    Args:
        load: Counters on the device.
        groups: Number of groups beside the first, at least the sequences of a batch.
    """

    def __init__(self, load: ExpertLoad, groups: int) -> None:
        self._load = load
        self._free = list(range(1, groups + 1))
        self._groups: dict[Sequence, int] = {}

    def begin_batch(self, sequences: list[Sequence]) -> list[int]:
        """The group of each sequence of a batch; those that wait lose theirs if there are few."""
        new = [one for one in sequences if one not in self._groups]
        if len(new) > len(self._free):
            running = set(sequences)
            for waiting in [one for one in self._groups if one not in running]:
                self.read(waiting)
        for sequence in new:
            self._groups[sequence] = self._free.pop()
        return [self._groups[one] for one in sequences]

    def read(self, sequence: Sequence) -> None:
        """Add the counts of a sequence to its metrics, and free its group."""
        group = self._groups.pop(sequence, None)
        if group is None:
            return
        self._free.append(group)
        sequence.metrics.add_expert_tokens(self._load.take(group))
