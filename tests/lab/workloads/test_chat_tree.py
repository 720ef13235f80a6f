"""Chats of a trace fork where they differ, and go on from the answers that they quote."""

from typing import Any, cast

from agentrt.base.ids import NodeId, RunId
from agentrt.lab.workloads.chat_tree import ChatTree
from agentrt.program import Chat, Gen, Node, OutputSpec, Scope, Submit
from agentrt.program.call_options import checked_options
from agentrt.program.prompt_prefix import since_answer

TEXT = OutputSpec("value", None, str, "str")
RULES, ASK = ("system", ("rules",)), ("user", ("ask",))


class Nobody:
    """A run that drives nothing."""

    run_id = RunId("run")

    def seed_of(self, node_id: NodeId) -> int:
        return 0


def generation(prompt: Chat) -> Gen[Any]:
    scope = Scope(cast(Submit[Any], Nobody()), "run", NodeId("run"))
    given = checked_options({"max_tokens": 5})
    return Gen(scope, prompt, TEXT, "plan", "site", given)


def test_chats_that_begin_alike_are_one_chat_that_forks() -> None:
    tree: ChatTree[str] = ChatTree()
    asked, other = tree.find([RULES, ASK], str), tree.find([RULES, ("user", ("else",))], str)
    assert tree.find([RULES, ASK], str) is asked
    assert other is not asked
    assert tree.find([ASK], str) is not tree.find([("system", ("ask",))], str)


def test_chats_with_different_first_messages_are_no_forks() -> None:
    tree: ChatTree[str] = ChatTree()
    one, other = tree.find([ASK], str), tree.find([("user", ("else",))], str)
    assert not {chat.serial for chat in since_answer(one)} & {
        chat.serial for chat in since_answer(other)
    }


def test_an_answer_to_the_chat_itself_is_gone_on_from() -> None:
    """One to another chat, or beside other text, is quoted."""
    tree: ChatTree[str] = ChatTree()
    plan = generation(tree.find([RULES, ASK], str))

    def meant(part: str) -> str | Node[Any]:
        return plan if part == "plan" else part

    answer = ("assistant", ("plan",))
    assert tree.find([RULES, ASK, answer], meant) is plan.ctx
    assert tree.find([RULES, answer], meant) is not plan.ctx
    assert tree.find([RULES, ASK, ("assistant", ("plan", "!"))], meant) is not plan.ctx
    assert tree.find([RULES, ASK, ("user", ("plan",))], meant) is not plan.ctx
