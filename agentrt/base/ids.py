"""Types of ids, so that they are not mixed up."""

from __future__ import annotations

import hashlib
from typing import NewType

RunId = NewType("RunId", str)
"""One execution of a program, 16 hex digits."""

NodeId = NewType("NodeId", str)
"""Path of a node inside its run: `finance#0/plan#0`. Independent of the order of events."""

RequestId = NewType("RequestId", int)
"""One generation sent to a backend; unique within a backend's life."""

PageId = NewType("PageId", int)
"""Index of one page of the KV cache (vLLM: block id)."""


def trace_id_of(run_id: RunId) -> str:
    """Id of the trace of a run: 32 hex digits, the same for the same run."""
    return hashlib.blake2b(run_id.encode(), digest_size=16, person=b"agentrt.trace").hexdigest()


def span_id_of(run_id: RunId, node_id: NodeId) -> str:
    """Id of the span of a node: 16 hex digits, the same for the same node of the same run."""
    key = f"{run_id}/{node_id}".encode()
    return hashlib.blake2b(key, digest_size=8, person=b"agentrt.span").hexdigest()
