"""Names that a tool completes for a chat, a node and an answer: what programs use.

What only the runtime uses are functions of the modules, or parts of `work`, `scope` and `written`.
"""

import pytest

from agentrt import Chat, Each, Gen, Node, TaggedText, chat, program
from agentrt.testing import ScriptedRuntime

NODE = "cancel cancelled done error id kind label name site value within"
OF_RUNTIME = "held_options scope work"
GEN = "attempts ctx logprobs max_tokens meta output_ids partials scores stream text thinking"
OF_GENERATIONS = "prompt replaced_prompt written"
CHAT = (
    "assistant calls each fork generate history json_style label messages of results serial step "
    "system tagged tools user"
)


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (Node, f"{NODE} {OF_RUNTIME}"),
        (Gen, f"{NODE} {OF_RUNTIME} {GEN} {OF_GENERATIONS}"),
        (Each, f"{NODE} {OF_RUNTIME} {GEN} {OF_GENERATIONS} items"),
        (TaggedText, f"{NODE} {OF_RUNTIME} {GEN} {OF_GENERATIONS} pieces"),
        (Chat, CHAT),
    ],
)
def test_what_is_completed_is_what_programs_use(cls: type, names: str) -> None:
    assert sorted(name for name in dir(cls) if not name.startswith("_")) == sorted(names.split())


def test_a_node_in_a_shell_completes_no_names_of_the_runtime() -> None:
    @program
    async def completed() -> list[str]:
        return dir(chat().user("x").generate())

    names = ScriptedRuntime(["Nile"]).run(completed).value
    shown = sorted(name for name in names if not name.startswith("_"))
    assert shown == sorted(f"{NODE} {GEN}".split())
