"""Content of nodes for observers that want it: what no content of the run has told before.

A chat is read back to the first link that the run has told, so that the cost of a node does not
grow with the length of its chat. Nothing of a program is kept by it: chats that are still
referenced keep their KV cache.
"""

from __future__ import annotations

from typing import Any

from agentrt.base.ids import RunId
from agentrt.base.plain_copy import PlainCopy
from agentrt.base.segments import Segment, Text, ValueText
from agentrt.program import AskWork, Chat, Gen, Node, ProgramWork, ToolWork, YieldingNode
from agentrt.program.node import segment_of
from agentrt.program.prompt_prefix import answer_of, links_after, own_pieces, plain_pieces
from agentrt.protocol.node_content import NodeContent, PromptLink
from agentrt.runtime.written_answer import answer_so_far


class ToldPrompts:
    """The links of prompts that the content of a run has told."""

    __slots__ = ("_serials",)

    def __init__(self) -> None:
        self._serials: set[int] = set()

    def content_of(self, run_id: RunId, node: Node[Any]) -> NodeContent:
        """The content of a node that has ended."""
        if isinstance(node, Gen):
            return self._generation(run_id, node)
        work, copy = node.work, PlainCopy()
        call_id, arguments_json = "", ""
        arguments: Any = None
        if isinstance(work, ToolWork):
            if work.call is not None:
                call_id, arguments_json = work.call.call_id, work.call.arguments_json
            else:
                arguments = copy.of(work.arguments)
        elif isinstance(work, ProgramWork):
            if _is_ours(work):
                return NodeContent(run_id, node.id)
            given = {name: _argument(value) for name, value in work.arguments.items()}
            arguments = copy.of(given)
        elif isinstance(work, AskWork):
            arguments = work.question
        result, has_result = None, node.error is None
        if has_result:
            result = copy.of(_argument(node.value))
        elif isinstance(node, YieldingNode) and node.chunks:
            result, has_result = copy.of("".join(node.chunks)), True  # the text before it broke
        return NodeContent(
            run_id,
            node.id,
            call_id=call_id,
            arguments=arguments,
            arguments_json=arguments_json,
            result=result,
            has_result=has_result,
            characters=copy.characters + len(arguments_json),
        )

    def _generation(self, run_id: RunId, gen: Gen[Any]) -> NodeContent:
        prompt, links = self._new_links(gen)
        answer = answer_so_far(gen)
        characters = 0 if answer is None else len(answer.text) + len(answer.thinking)
        for link in links:
            for segment in link.segments:
                if isinstance(segment, Text):
                    characters += len(segment.text)
        tools = gen.prompt.tools
        return NodeContent(
            run_id,
            gen.id,
            tuple(links),
            prompt,
            gen.replaced_prompt is not None,
            tuple([tool.name for tool in tools]) if tools else (),
            answer,
            gen.attempts,
            "",  # no call
            None,
            "",
            None,
            False,
            characters,
        )  # by position: keywords would take twice as long

    def _new_links(self, gen: Gen[Any]) -> tuple[int | None, list[PromptLink]]:
        """Number of the last link of a prompt, and the links that are new, the first one first."""
        told, found = self._serials, list[PromptLink]()
        known, new = links_after(gen.prompt, told)
        before = None if known is None else known.serial
        for link in reversed(new):
            pieces = plain_pieces(link)
            if pieces is None:
                found.append(_with_values(link, before, gen))
            elif pieces:
                found.append(PromptLink(link.serial, before, pieces))
            else:  # it only names a branch
                continue
            before = link.serial
            told.add(before)
        return before, found


def _with_values(link: Chat, before: int | None, gen: Gen[Any]) -> PromptLink:
    """A link with nodes: it is the answer of one, or has their values."""
    answer = answer_of(link)
    if answer is not None and answer.scope.run is gen.scope.run:
        return PromptLink(link.serial, before, (), answer.id)
    segments = [
        _value_of(piece, link, gen) if isinstance(piece, Node) else piece
        for piece in own_pieces(link)
    ]
    return PromptLink(link.serial, before, tuple(segments))


def _value_of(node: Node[Any], link: Chat, gen: Gen[Any]) -> Segment:
    """The value of a node as the prompt has it."""
    try:
        segment = segment_of(node, as_answer=answer_of(link) is node, style=gen.prompt.json_style)
    except Exception as error:  # there was no prompt then
        return ValueText(f"[failed: {type(error).__name__}]", node.id)
    return ValueText(segment.text, node.id) if type(segment) is Text else segment


def _is_ours(work: ProgramWork) -> bool:
    """Whether a program is one of this package, such as that of a served request."""
    return work.fn is not None and (work.fn.__module__ or "").startswith("agentrt.")


def _argument(value: Any) -> Any:
    """A value of the language by its name, any other as it is."""
    if isinstance(value, Node):
        return f"<{value.id}>"
    return f"<{type(value).__name__}>" if isinstance(value, Chat) else value
