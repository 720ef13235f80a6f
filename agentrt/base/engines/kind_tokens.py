"""Doors at which kinds of servers take prompts as token ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from agentrt.base.constraint_spec import ConstraintKind
from agentrt.base.record import record


@record
class KindDialects:
    """Structured output of one kind of server.

    Attributes:
        dialects: Names of the constraint dialects that it enforces, the surest first.
        source: Address of the document that describes them.
    """

    dialects: tuple[str, ...]
    source: str


LogprobStage = Literal["drawn", "model"]
"""Distribution of log-probabilities: that of the draw, after temperature and penalties, or that of
the model alone, before these."""


@record
class KindLogprobs:
    """Log-probabilities of one kind of server, with token ids.

    Attributes:
        field: Field of the number of alternatives.
        stage: Their distribution.
        fields: Other fields of such a request: by these, tokens are named by their ids.
        source: Address of the document that describes them.
    """

    field: str
    stage: LogprobStage
    fields: Mapping[str, Any]
    source: str = ""


@record
class KindTokens:
    """The door of one kind of server for prompts as token ids.

    Attributes:
        protocol: Wire protocol of the door.
        fields: Fields of a request by which the server returns the ids of its output.
        constraints: Dialects by kind of constraint, in that protocol.
        end_ids: Field of the ids that end an output, besides those that the server knows; "" if
            it takes none.
        tokenize_path: Path, beside the API, that gives the ids of a text; "" if there is none.
        source: Address of the document that describes the door.
        logprobs: Door for log-probabilities by token id; None if there is none.
        scores: Field by which it scores the options of a choice; "" if there is none.
    """

    protocol: str
    fields: Mapping[str, Any]
    constraints: Mapping[ConstraintKind, KindDialects]
    end_ids: str = ""
    tokenize_path: str = ""
    source: str = ""
    logprobs: KindLogprobs | None = None
    scores: str = ""


def tokens_in(row: Mapping[str, Any], sources: Mapping[str, str]) -> KindTokens:
    """The door in the table `tokens` of a kind.

    Args:
        row: The table.
        sources: Documents, by the short names of the file.
    """
    return KindTokens(
        row["protocol"],
        row.get("fields", {}),
        dialects_in(row.get("constraints", {}), sources),
        row.get("end_ids", ""),
        row.get("tokenize_path", ""),
        sources[row["from"]],
        _logprobs_in(row["logprobs"], sources) if "logprobs" in row else None,
        row.get("scores", ""),
    )


def _logprobs_in(row: Mapping[str, Any], sources: Mapping[str, str]) -> KindLogprobs:
    return KindLogprobs(row["field"], row["stage"], row.get("fields", {}), sources[row["from"]])


def dialects_in(
    rows: Mapping[str, Any], sources: Mapping[str, str]
) -> dict[ConstraintKind, KindDialects]:
    """The dialects in a table `constraints`, by kind of constraint."""
    return {
        cast(ConstraintKind, kind): KindDialects(tuple(row["dialects"]), sources[row["from"]])
        for kind, row in rows.items()
    }
