"""Content of nodes, what was said to them and by them, as plain values for observers."""

from __future__ import annotations

from typing import Any, Protocol

from agentrt.base.errors import FailedAttempt
from agentrt.base.ids import NodeId, RunId
from agentrt.base.record import record
from agentrt.base.segments import Generated, Segment


@record
class PromptLink:
    """A few messages of a prompt; prompts that share their beginning share its links.

    Attributes:
        serial: Number of the link within the process.
        after: Number of the link before it; None at the beginning of a prompt.
        segments: The messages; () if they are the answer of a node of the run.
        answer_of: Node of whose answer the link consists, or "".
    """

    serial: int
    after: int | None
    segments: tuple[Segment, ...] = ()
    answer_of: str = ""


@record
class NodeContent:
    """The content of a node that has ended.

    Attributes:
        run_id: The run.
        node_id: Path of the node in the run.
        links: Links of its prompt that no content of the run before had, the first one first.
        prompt: Number of the last link of its prompt; None if it has no prompt.
        is_shortened: Whether that prompt stands in for one that did not fit.
        tools: Names of the tools that the prompt describes.
        answer: Answer of a generation, as far as it came; None without any.
        attempts: Answers that did not pass their check.
        call_id: Id of the call by which a model asked for a tool, or "".
        arguments: Arguments of a tool or program by name, or the text of a question, as a plain
            copy; None without.
        arguments_json: Arguments of a tool as a model wrote them, instead of `arguments`; "".
        result: Value of a tool, program or question as a plain copy, or the text that a tool had
            yielded when it failed; None without.
        has_result: Whether there is a result, which may be None itself.
        characters: Characters of all its texts, about.
    """

    run_id: RunId
    node_id: NodeId
    links: tuple[PromptLink, ...] = ()
    prompt: int | None = None
    is_shortened: bool = False
    tools: tuple[str, ...] = ()
    answer: Generated | None = None
    attempts: tuple[FailedAttempt, ...] = ()
    call_id: str = ""
    arguments: Any = None
    arguments_json: str = ""
    result: Any = None
    has_result: bool = False
    characters: int = 0


class ContentObserver(Protocol):
    """An observer that is also given the content of nodes; see `Observer`."""

    def on_content(self, content: NodeContent) -> None:
        """Take the content of a node, before the event of its end. Must return at once."""
        ...
