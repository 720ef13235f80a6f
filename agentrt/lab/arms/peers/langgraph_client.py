"""Programs as graphs of LangGraph; their nodes call `ChatOpenAI`.

Runs in the peers' environment; see `plain_play`. Graphs are compiled before the play, as an author
compiles them once. A node of the program is a node of the graph, and has an edge from each node it
needs; LangGraph runs ready nodes in steps, and begins a step when the one before is over. It cannot
give up branches, so a vote is one node, which calls all voters and cancels the last.
"""

from __future__ import annotations

import asyncio
import operator
import os
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Annotated, Any, TypedDict

os.environ["LANGSMITH_TRACING"] = "false"  # before its libraries read it

from answering import Json, answer_lines
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from plain_play import PlainClient, ProgramInPlay, Server, vote

MOST_STEPS = 10_000
_KINDS = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_VOTE = "vote"


class GraphState(TypedDict):
    """Outputs of a graph's nodes by name."""

    said: Annotated[dict[str, str], operator.or_]


GraphNode = Callable[[GraphState], Awaitable[GraphState]]
_Models = dict[str, ChatOpenAI]
"""A model for each address of the server."""


class LangGraphClient(PlainClient):
    """Plays programs as compiled graphs."""

    async def open(self, settings: Json) -> Json:
        """Connect."""
        server = Server(settings)
        options: Json = {
            "model": server.model,
            "api_key": "none",
            "max_retries": 0,
            "http_async_client": server.http,
        }
        options["temperature"] = server.body.get("temperature")
        self._server = server
        self._models = _models(server, options)
        self._voting = self._models
        if server.streams_what_may_end:
            streamed = {**options, "streaming": True, "stream_usage": True}
            self._voting = _models(server, streamed)
        names = ("langgraph", "langchain-openai", "openai")
        return {name: version(name) for name in names}

    def prepare(self, program: Json, played: ProgramInPlay) -> Callable[[], Awaitable[None]]:
        """Compile the program's graph."""
        quorum = program["quorum"]
        voters = set(quorum["names"]) if quorum else set()
        names = {one["name"]: f"node{at}" for at, one in enumerate(program["nodes"])}
        graph: StateGraph[Any, Any, Any, Any] = StateGraph(GraphState)
        for one in program["nodes"]:
            if one["name"] not in voters:
                graph.add_node(names[one["name"]], self._node(one, played))
                _connect(graph, [names[name] for name in one["needs"]], names[one["name"]])
        if quorum:
            calls = [one for one in program["nodes"] if one["name"] in voters]
            needs = {name for call in calls for name in call["needs"]} - voters
            graph.add_node(_VOTE, self._vote(calls, quorum["least"], played))
            _connect(graph, sorted(names[name] for name in needs), _VOTE)
        needed = {name for one in program["nodes"] for name in one["needs"]}
        last = [
            names[one["name"]] for one in program["nodes"] if one["name"] not in needed | voters
        ]
        for name in [*last, *([_VOTE] if quorum else [])]:
            graph.add_edge(name, END)
        compiled = graph.compile()

        async def run() -> None:
            await compiled.ainvoke({"said": {}}, {"recursion_limit": MOST_STEPS})
            played.end()

        return run

    def _node(self, one: Json, played: ProgramInPlay) -> GraphNode:
        async def node(state: GraphState) -> GraphState:
            if one["kind"] == "call":
                said = await self._call(self._models, one, played)
            else:
                said = await played.wait(one)
            return {"said": {one["name"]: said}}

        return node

    def _vote(self, calls: list[Json], least: int, played: ProgramInPlay) -> GraphNode:
        async def node(state: GraphState) -> GraphState:
            asked = {
                call["name"]: asyncio.create_task(self._call(self._voting, call, played))
                for call in calls
            }
            ended = await vote(asked, least, played)
            return {"said": {name: asked[name].result() for name in ended}}

        return node

    async def _call(self, models: _Models, call: Json, played: ProgramInPlay) -> str:
        began_s = played.watch.now_s()
        chat = played.messages(call)
        model = models[self._server.url(chat)]
        messages: list[BaseMessage] = [_KINDS[one["role"]](content=one["content"]) for one in chat]
        fields = self._server.fields(call)
        limit = fields.pop("max_tokens")
        fields.pop("temperature", None)
        async with self._server.turns:
            answer = await model.ainvoke(messages, max_tokens=limit, extra_body=fields)
        text = str(answer.text)
        played.answered(call, began_s, {"text": text, "first_s": None, "usage": _usage(answer)})
        return text


def _models(server: Server, options: Json) -> _Models:
    return {url: ChatOpenAI(**options, base_url=url) for url in server.urls}


def _connect(graph: StateGraph[Any, Any, Any, Any], needs: list[str], name: str) -> None:
    """Add the edges into a node, which waits for all of them."""
    if not needs:
        graph.add_edge(START, name)
    elif len(needs) == 1:
        graph.add_edge(needs[0], name)
    else:
        graph.add_edge(needs, name)


def _usage(answer: Any) -> Json:
    """Token counts under the names of the API."""
    usage = answer.usage_metadata or {}
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": {
            "cached_tokens": (usage.get("input_token_details") or {}).get("cache_read")
        },
    }


if __name__ == "__main__":
    answer_lines(LangGraphClient())
