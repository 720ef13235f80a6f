"""How models think, as their own templates tell; and what of it stays in a chat."""

import pytest

from agentrt.base.segments import (
    PLAIN_THINK_FRAME,
    CallMade,
    Close,
    Generated,
    Open,
    ResultOf,
    Text,
    ThinkFrame,
    ToolSchema,
)
from tests.prompt import test_templates as templates

LOOK = ToolSchema("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}})
THINK = ("<think>", "</think>")
HARMONY = "<|end|><|start|>assistant<|channel|>final<|message|>"
FRAMES = {
    "Qwen-Qwen3-0.6B": ThinkFrame("<think>\n", "</think>", "\n</think>\n\n", False, THINK),
    "Qwen3.5-4B": ThinkFrame("", "</think>", "\n</think>\n\n", True, THINK[1:]),
    "Qwen-QwQ-32B": ThinkFrame("<think>\n", "</think>", "\n</think>\n\n", False, THINK),
    "GLM-4.7-Flash": ThinkFrame("", "</think>", "</think>", True, THINK[1:]),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": ThinkFrame(
        "<think>\n", "</think>", "\n</think>\n\n", True, THINK
    ),
    "mistralai-Ministral-3-14B-Reasoning-2512": ThinkFrame(
        "[THINK]", "[/THINK]", "[/THINK]", False, ("[THINK]", "[/THINK]")
    ),
    "openai-gpt-oss-120b": ThinkFrame(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        HARMONY,
        False,
        ("<|channel|>", "<|message|>", "<|end|>", "<|start|>"),
    ),
    "Apriel-1.6-15b-Thinker-fixed": ThinkFrame(
        "", "[BEGIN FINAL RESPONSE]", "\n[BEGIN FINAL RESPONSE]\n", True
    ),
    "meta-llama-Llama-3.1-8B-Instruct": PLAIN_THINK_FRAME,
}


@pytest.fixture
def codec(archive):
    return lambda name: templates.codec_of((archive / f"{name}.jinja").read_text("utf-8"), name)


@pytest.mark.parametrize("name", FRAMES)
def test_the_frame_is_the_models_own(codec, name):
    made = codec(name)
    assert made.think_frame == FRAMES[name]
    for text in made.think_frame.special:
        assert text in made.vocab.special_ids


def test_most_models_that_think_show_how(archive):
    """Of the templates that speak of thinking, nearly all have a frame that was found."""
    speak = found = 0
    for path in sorted(archive.glob("*.jinja")):
        source = path.read_text("utf-8")
        if "think" not in source.lower() or path.stem in templates.REFUSED:
            continue
        speak += 1
        found += templates.codec_of(source, path.stem).think_frame != PLAIN_THINK_FRAME
    assert found > 0.85 * speak > 30


def thought(codec, answer, calls=()):
    """What a model writes within a budget: its frame, a thought and an answer."""
    frame = codec.think_frame
    head = f"{'' if frame.opened else frame.opening}I see.{frame.closing}"
    ids = templates.literal_ids(codec, head + answer)
    content = "" if calls else answer
    return Generated(head + answer, ids, codec.fingerprint, calls, content, head)


def contains(ids, part):
    return any(ids[at : at + len(part)] == part for at in range(len(ids)))


def test_within_a_round_of_tools_the_thought_stays_with_its_ids(codec):
    made = codec("Qwen-Qwen3-0.6B")
    frame = made.call_frame
    call = CallMade("call00001", "look", '{"at": "x"}')
    text = f"{frame.before}look{frame.middle}{call.arguments_json}{frame.after}"
    answer = thought(made, text, (call,))
    asked = (Open("user"), Text("Look."), Close())
    result = (Open("tool"), ResultOf("call00001", "look"), Text("nothing"), Close())
    chat = (*asked, Open("assistant"), answer, Close(), *result)
    encoded = made.encode((LOOK,), chat)
    assert contains(encoded.token_ids, answer.token_ids)
    first = made.encode((LOOK,), asked).token_ids
    assert encoded.token_ids[: len(first)] == first
    assert encoded.losses == ()


def test_an_answered_turn_loses_its_thought_where_the_template_says_so(codec):
    made = codec("Qwen-Qwen3-0.6B")
    answer = thought(made, "Four.")
    chat = (Open("user"), Text("2+2?"), Close(), Open("assistant"), answer, Close())
    again = (*chat, Open("user"), Text("Sure?"), Close())
    encoded = made.encode((), again)
    text = made.detokenizer(True).feed_ids(encoded.token_ids)
    assert "Four." in text
    assert "I see." not in text
    assert encoded.losses
    kept = made.encode((), again, "append")
    assert contains(kept.token_ids, answer.token_ids)
    assert kept.losses == ()


@pytest.mark.parametrize("name", ["meta-llama-Llama-3.1-8B-Instruct", "google-gemma-2-2b-it"])
def test_a_template_that_knows_no_thought_keeps_all(codec, name):
    made = codec(name)
    answer = thought(made, "Four.")
    asked = (Open("user"), Text("2+2?"), Close())
    chat = (*asked, Open("assistant"), answer, Close(), Open("user"), Text("Sure?"), Close())
    encoded = made.encode((), chat)
    assert contains(encoded.token_ids, answer.token_ids)
    assert encoded.losses == ()


def test_a_template_that_refuses_thought_in_a_content_gets_the_answer(codec):
    made = codec("openai-gpt-oss-120b")
    answer = thought(made, "Four.")
    asked = (Open("user"), Text("2+2?"), Close())
    chat = (*asked, Open("assistant"), answer, Close(), Open("user"), Text("Sure?"), Close())
    text = made.detokenizer(True).feed_ids(made.encode((), chat).token_ids)
    assert "Four." in text
    assert "I see." not in text


def test_others_are_told_the_answer_only():
    answer = Generated(
        "<think>\nhm\n</think>\n\n4", (1, 2), "c", (), "4", "<think>\nhm\n</think>\n\n"
    )
    assert answer.visible_text == "4"
    assert answer.without_thinking() == Generated("4", content="4")
    plain = Generated("4", (1,), "c")
    assert plain.without_thinking() is plain
