"""What was said is on events only where it was asked for, in the form of the GenAI conventions."""

import json
from typing import Any

from agentrt import ask, chat, program, tool
from agentrt.base.config import RunConfig
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.events import NodeFinished
from agentrt.runtime import RunOptions
from agentrt.testing import calls_text

ASK = chat(system="Be brief.")


@tool(effects="pure")
async def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@program
async def react() -> str:
    plan = ASK.user("Double 4.").calls(double, name="plan")
    data = [call.start() async for call in plan]
    return await plan.ctx.results(data).user("And?").generate(name="answer")


def script(request: GenerateRequest, prompt: str) -> str:
    return calls_text(("double", {"x": 4})) if "plan" in request.node_id else "eight"


def test_nothing_is_captured_by_default(bench: Any) -> None:
    rig = bench(script)
    rig.run(react)
    assert all(event.attributes == {} for event in rig.recorder.of(NodeFinished))


def test_messages_are_captured_where_asked(bench: Any) -> None:
    rig = bench(script)
    rig.run(react, config=RunConfig(capture_content=True))
    plan = rig.recorder.of(NodeFinished, "plan")[0].attributes
    answer = rig.recorder.of(NodeFinished, "answer")[0].attributes
    called = rig.recorder.of(NodeFinished, "double")[0].attributes
    output = json.loads(plan["gen_ai.output.messages"])
    call_id = output[0]["parts"][0]["id"]
    assert output == [
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": call_id, "name": "double", "arguments": {"x": 4}}
            ],
            "finish_reason": "stop",
        }
    ]
    assert json.loads(plan["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "Be brief."}
    ]
    assert json.loads(plan["gen_ai.tool.definitions"])[0]["name"] == "double"
    assert json.loads(answer["gen_ai.input.messages"])[2] == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": call_id, "response": "8"}],
    }
    assert json.loads(answer["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "text", "content": "eight"}
    ]
    assert called == {"gen_ai.tool.call.arguments": '{"x":4}', "gen_ai.tool.call.result": "8"}


def test_a_question_to_a_person_and_its_answer_are_content(bench: Any) -> None:
    @program
    async def confirm() -> bool:
        return await ask(bool, "Send it?")

    rig = bench(script)
    options = RunOptions(on_ask=lambda question: "yes")
    rig.run(confirm, config=RunConfig(capture_content=True), options=options)
    (finished,) = rig.recorder.of(NodeFinished, "ask")
    assert finished.attributes == {"input.value": "Send it?", "output.value": "true"}


def test_an_observer_may_ask_for_content(bench: Any) -> None:
    rig = bench(script)
    rig.recorder.wants_content = True
    rig.run(react)
    assert "gen_ai.output.messages" in rig.recorder.of(NodeFinished, "answer")[0].attributes
