"""Names of things that must not be mixed up."""

from __future__ import annotations

from typing import NewType

RunId = NewType("RunId", str)
"""One execution of a program, 16 hex digits."""

NodeId = NewType("NodeId", str)
"""Path of a node inside its run: `finance#0/plan#0`. Independent of the order of arrival."""

RequestId = NewType("RequestId", int)
"""One generation handed to a backend; unique within a backend's life."""

PageId = NewType("PageId", int)
"""Index of one page of KV memory."""
