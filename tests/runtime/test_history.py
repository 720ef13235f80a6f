"""How earlier answers stand in prompts: as the template writes them, or as they were generated."""

import json
from typing import Any

import pytest

from agentrt import Chat, Unsupported, UsageError, chat, embedded, program, trim
from agentrt.base.segments import History
from agentrt.program.prompt_prefix import links_of, rebuilt, with_tools
from agentrt.prompt import Codec
from agentrt.prompt.model_files import ModelFiles
from agentrt.protocol.events import PrefixLost

THINKING = (
    "{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1] }}"
    "{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Drops the reasoning of answered turns, as many models were trained."""


@pytest.fixture(scope="module")
def thinking() -> Codec:
    tokenizer = (embedded.path() / "tokenizer.json").read_text("utf-8")
    config = json.loads((embedded.path() / "config.json").read_text("utf-8"))
    return Codec(
        ModelFiles(
            path=embedded.path(),
            tokenizer_json=tokenizer,
            templates={"default": THINKING},
            special_texts={},
            eos_texts=("<|end|>",),
            window_tokens=config["max_position_embeddings"],
        )
    )


@program
async def talks(history: History) -> Chat:
    c = chat(system="Think first.", history=history)
    for index in range(3):
        gen = c.user(f"question {index}").generate(name=f"n{index}", max_tokens=60)
        await gen
        c = gen.ctx
    return c


@pytest.mark.parametrize("history", ["template", "append"])
def test_reasoning_is_dropped_or_kept(bench: Any, thinking: Codec, history: History) -> None:
    """What is dropped is told with its reason; what is kept goes on from what was computed."""
    rig = bench(lambda request, prompt: "I wonder </think> so it is", codec=thinking)
    rig.run(talks, history)
    first, second, third = rig.backend.seen.prompts.values()
    kept = history == "append"
    assert third.count("I wonder") == (2 if kept else 0)
    assert second.startswith(first + "I wonder </think> so it is") == kept
    lost = rig.recorder.of(PrefixLost)
    assert [e.reason for e in lost] == ([] if kept else ["template_rewrite"] * 2)


def test_it_holds_for_all_that_continues_a_chat(bench: Any, thinking: Codec) -> None:
    """Forks, tools, results of a hook that shortens: the choice is made once."""
    kept = chat(history="append").user("x").fork(2)[0].assistant("y")
    assert kept.history == "append"
    assert rebuilt(kept, links_of(kept)).history == "append"
    assert with_tools(kept, ()).history == "append"
    assert chat().user("x").history == "template"

    @program
    async def long() -> History:
        c = chat(system="x", history="append")
        for _ in range(60):
            c = c.user("word " * 60).assistant("fine")
        gen = c.user("And now?").generate(max_tokens=20, on_overflow=trim)
        await gen
        return gen.ctx.history

    assert bench(["fine"], codec=thinking).run(long) == "append"


def test_an_engine_that_writes_prompts_itself_cannot_append(bench: Any) -> None:
    @program
    async def appends() -> str:
        return await chat(history="append").user("x").generate()

    with pytest.raises(Unsupported, match="writes its prompts itself") as e:
        bench(["x"]).run(appends)
    assert "test_history.py:" in e.value.where


def test_a_choice_that_does_not_exist() -> None:
    other: Any = "keep"
    with pytest.raises(UsageError, match="history='keep' is unknown"):
        chat(history=other)
