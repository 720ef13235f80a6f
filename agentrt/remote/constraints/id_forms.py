"""Forms of a constraint where prompts go as token ids: the text stays as the model writes it.

No form wraps the answer or adds an instruction, since ids are kept. What the server does not hold
is checked as a whole, without being asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.segments import CallFrame
from agentrt.remote.constraints.constraint_forms import (
    FREE,
    ConstraintForm,
    ConstraintSupport,
    regex_of,
)
from agentrt.remote.constraints.requested_output import OutputSchema, RequestedOutput
from agentrt.remote.constraints.structural_tag import calls_tag


def id_forms(
    spec: ConstraintSpec,
    server: ConstraintSupport,
    frame: CallFrame,
    special_ids: Mapping[str, int],
) -> tuple[ConstraintForm, ...]:
    """The forms of `spec` for a server that takes ids, the surest first.

    Args:
        spec: The constraint.
        server: The server.
        frame: Frame of the model's calls.
        special_ids: Id of each special token of the model, by its text.
    """
    held = _held(spec, server, frame, special_ids)
    return (*held, ConstraintForm("a check alone", FREE, enforced=False))


def _held(
    spec: ConstraintSpec,
    server: ConstraintSupport,
    frame: CallFrame,
    special_ids: Mapping[str, int],
) -> Iterator[ConstraintForm]:
    for dialect in server.proven.get(spec.kind, ()):
        output: RequestedOutput | None
        if spec.kind == "json":
            output = RequestedOutput(OutputSchema(json.loads(spec.source)))
        elif spec.kind == "calls":
            tag = calls_tag(spec, frame, special_ids)
            wanted = {"type": "structural_tag", "format": tag}
            output = None if tag is None else RequestedOutput(own={"response_format": wanted})
        else:
            output = dialect.output(spec)
        if output is not None:
            yield ConstraintForm(dialect.name, output, enforced=True)
    if spec.kind == "choice":
        for dialect in server.proven.get("regex", ()):
            yield ConstraintForm(
                dialect.name, dialect.output(regex_of(spec.options)), enforced=True
            )
