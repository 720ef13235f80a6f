"""Programs on the wire, made by hand."""

from agentrt.lab.arms.wire import (
    CallLine,
    MessageLine,
    NodeLine,
    ProgramLine,
    QuorumLine,
    ThinkLine,
    ToolLine,
)


def call(
    name: str, *messages: MessageLine, tokens: int = 6, needs: tuple[str, ...] = ()
) -> CallLine:
    return CallLine(
        kind="call", name=name, site=name, needs=list(needs), messages=list(messages), tokens=tokens
    )


def tool(name: str, text: str, *needs: str) -> ToolLine:
    return ToolLine(
        kind="tool", name=name, site=name, needs=list(needs), seconds=0.001, plan="", at_token=0,
        text=text,
    )  # fmt: skip


def program(
    name: str, nodes: list[NodeLine], result: list[str], quorum: QuorumLine | None = None
) -> ProgramLine:
    return ProgramLine(
        name=name, shape="made", tenant="", at_s=0.0, nodes=nodes, result=result, quorum=quorum
    )


ASK: MessageLine = ("user", [{"text": " a b c"}])
CHAIN = program(
    "chain/0",
    [
        call("plan", ("system", [{"text": " be b"}]), ASK),
        tool("look", " d e", "plan"),
        ThinkLine(kind="think", name="rest", needs=["plan"], seconds=0.001, text=" f"),
        call(
            "end",
            ("system", [{"text": " be b"}]),
            ASK,
            ("assistant", [{"output": "plan"}]),
            ("user", [{"result": "look"}, {"text": " g"}, {"result": "rest"}]),
            tokens=5,
            needs=("plan", "look", "rest"),
        ),
    ],
    ["end"],
)
VOTE = program(
    "vote/0",
    [call(f"voter{at}", ASK, tokens=4 if at < 2 else 3000) for at in range(4)],
    [],
    {"names": [f"voter{at}" for at in range(4)], "least": 2},
)
TOO_LONG = program("long/0", [call("all", ("user", [{"text": " a" * 5000}]))], ["all"])
