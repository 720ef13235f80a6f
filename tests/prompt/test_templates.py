"""Over fifty real chat templates: what the codec derives of each is what the template writes."""

import json
import random
import re
from dataclasses import replace
from functools import cache

import pytest

from agentrt import embedded
from agentrt.base.errors import ModelInvalid, Unsupported
from agentrt.base.segments import (
    CallMade,
    Close,
    Generated,
    Hole,
    Open,
    ResultOf,
    Segment,
    Text,
    ToolSchema,
)
from agentrt.prompt import Codec
from agentrt.prompt.composer import LayoutMismatch
from agentrt.prompt.full_render import escaped_tools
from agentrt.prompt.id_writer import IdWriter
from agentrt.prompt.layout import find_layout
from agentrt.prompt.message_form import render_calls
from agentrt.prompt.model_files import ModelFiles
from agentrt.prompt.text_encoder import TextPosition
from agentrt.prompt.tools_layout import layout_with

MARKUP = re.compile(
    r"<[|｜][^<>|｜\n]*[|｜]>|</?[a-zA-Z_]+>|\[/?[A-Z_]+\]|<[a-z]+_of_[a-z]+>|<\|[a-z_]+>|<[a-z_]+\|>"
)
WORDS = ("Hello there", "What is 3+4?", "x\ny", "a  b", "Ünï 東京", '{"a":1}', " edges \n")
TOOLS = (
    ToolSchema(
        "prices",
        "Closing prices.",
        {
            "type": "object",
            "properties": {"symbol": {"type": "string", "description": "Which."}},
            "required": ["symbol"],
        },
    ),
    ToolSchema("growth", "Percent.", {"type": "object", "properties": {"a": {"type": "number"}}}),
)
# s, u, a(nswer), A generated, c one call, C two, G a generated call, t(ool result)
CHATS = ("su", "uau", "suauau", "suctau", "suCttu", "suAuAu", "uGt", "suGtGtu", "uGtAu", "uA")
REFUSED = {
    # Needs a variable that only its own server sets.
    "fireworks-ai-llama-3-firefunction-v2",
}
ALL_SLOW = {
    # Tools, system text or reasoning move when more messages follow.
    "mistralai-Mistral-Nemo-Instruct-2407",
    "GigaChat3-10B-A1.8B",
    "GigaChat3.1-10B-A1.8B",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
}


@cache
def codec_of(source, name):
    """A codec of a template, over the embedded vocabulary and the markers that it writes.

    To make one is most of what a test here takes, and any chat may follow any other.
    """
    tokenizer = json.loads((embedded.path() / "tokenizer.json").read_text("utf-8"))
    first = 1 + max(
        *tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"])
    )
    markers = sorted({*MARKUP.findall(source), "<s>", "</s>"})
    tokenizer["added_tokens"] = [
        {
            "id": first + index,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": not text.startswith(("</", "<t")),
        }
        for index, text in enumerate(markers)
    ]
    return Codec(
        ModelFiles(
            path=embedded.path() / name,
            tokenizer_json=json.dumps(tokenizer),
            templates={"default": source},
            special_texts={"bos_token": "<s>", "eos_token": "</s>"},
            eos_texts=("</s>",),
        )
    )


def literal_ids(codec, text):
    pen = IdWriter(codec.parts, position=TextPosition.INSIDE)
    pen.write_template(text)
    pen.write_pending()
    return tuple(pen.ids)


def chat_of(codec, letters, rng):
    segments, pending, number = [], [], 0
    for letter in letters:
        if letter in "su":
            parts = [Text(rng.choice(WORDS)), Text(rng.choice(WORDS))]
            segments += [Open("system" if letter == "s" else "user"), *parts, Close()]
        elif letter == "a":
            segments += [Open("assistant"), Text(rng.choice(WORDS)), Close()]
        elif letter == "A":
            text = rng.choice(WORDS).strip()
            made = Generated(text, literal_ids(codec, text), codec.fingerprint)
            segments += [Open("assistant"), made, Close()]
        elif letter in "cCG":
            names = ("prices", "growth")[: 1 + (letter == "C")]
            pending = [
                CallMade(f"call{number + i:05d}", name, '{"symbol":"AAPL"}')
                for i, name in enumerate(names)
            ]
            number += len(names)
            text = render_calls(codec.call_frame, pending)
            made = Generated(text, literal_ids(codec, text), codec.fingerprint, tuple(pending))
            segments += [Open("assistant"), *([made] if letter == "G" else pending), Close()]
        else:
            call = pending.pop(0)
            result = [ResultOf(call.call_id, call.name), Text('{"close":"1.5"}')]
            segments += [Open("tool"), *result, Close()]
    return tuple(segments)


def text_of(codec, ids):
    detokenizer = codec.detokenizer(keep_special=True)
    return detokenizer.feed_ids(ids) + detokenizer.flush()


def names(archive):
    return sorted(file.stem for file in archive.glob("*.jinja"))


def test_there_are_over_fifty(archive):
    assert len(names(archive)) > 50


@pytest.mark.parametrize("shard", range(8))
def test_parts_equal_the_template(archive, shard):
    """Short path, whole rendering and the template itself agree on every chat it takes."""
    for name in names(archive)[shard::8]:
        source = (archive / f"{name}.jinja").read_text("utf-8")
        if name in REFUSED:
            with pytest.raises(ModelInvalid, match="does not write a user message"):
                codec_of(source, name)
            continue
        codec = codec_of(source, name)
        rng = random.Random(name)
        taken = 0
        for tools, chats in (((), CHATS), (TOOLS, CHATS[::3])):
            for letters in chats:
                segments = chat_of(codec, letters, rng)
                taken += check(codec, tools, segments, f"{name} {letters} {len(tools)}")
        assert taken or name in ALL_SLOW, f"{name}: no chat takes the short path"


def check(codec, tools, segments, what):
    """Whether the short path holds for a chat that the template takes."""
    view = codec.tool_views.for_tools(tools)
    try:
        whole = codec.encode_full(view, segments, view.prefixes.root("template"))
    except Unsupported:
        return False
    assert text_of(codec, whole.token_ids) == codec.render(tools, segments), what
    try:
        prefix = view.prefixes.root("template")
        for segment in segments:
            prefix = view.prefixes.extend(prefix, segment)
        ids = (*view.prefixes.token_ids(prefix), *view.composer.generation_prompt(prefix))
    except LayoutMismatch:
        assert codec.encode(tools, segments) == whole, what
        return False
    assert ids == whole.token_ids, what
    assert codec.encode(tools, segments).losses == whole.losses, what
    return True


@pytest.mark.parametrize("shard", range(2))
def test_tools_change_only_what_they_change(archive, shard):
    """The layout for a set of tools is found by few conversations, and is that of all of them."""
    quick = 0
    for name in names(archive)[shard::2]:
        if name in REFUSED:
            continue
        codec = codec_of((archive / f"{name}.jinja").read_text("utf-8"), name)
        view = codec.tool_views.for_tools(())
        probe = replace(view.probe, tools=escaped_tools(codec.parts, TOOLS))
        found = layout_with(probe, view.layout)
        full = find_layout(probe)
        if found is None:
            continue
        quick += 1
        assert found.between == full.between, name
        assert found.omits == full.omits, name
        assert found.joiner == full.joiner, name
        for kind, edges in found.edges.items():
            assert edges in (full.edges[kind], "odd"), (name, kind)
    assert quick > 20


FILLED = ("", " ", "x", "</think>y", "<tool_response>z", '{"a":"b"}', " a b \n", "[TOOL_CALLS]")


@pytest.mark.parametrize("history", ["template", "append"])
@pytest.mark.parametrize("shard", range(4))
def test_filling_holes_only_extends(archive, shard, history):
    """Whatever fills a hole, what was given out before stays as it was."""
    given = 0
    for name in names(archive)[shard::4]:
        if name in REFUSED:
            continue
        codec = codec_of((archive / f"{name}.jinja").read_text("utf-8"), name)
        rng = random.Random(name)
        for letters in ("suau", "suAuAu", "suGtGtu", "uGtAu", "suCttu"):
            segments = awkward(codec, chat_of(codec, letters, rng), rng)
            fillable = [i for i, s in enumerate(segments) if isinstance(s, (Text, Generated))]
            open_holes = sorted(rng.sample(fillable, min(3, len(fillable))))
            before: tuple[int, ...] = ()
            while True:
                chat = list(segments)
                for i in open_holes:
                    chat[i] = Hole(f"n{i}", generated=isinstance(segments[i], Generated))
                try:
                    encoded = codec.encode((), chat, history)
                except Unsupported:
                    break
                assert encoded.complete == (not open_holes)
                assert encoded.token_ids[: len(before)] == before, (name, letters)
                before = encoded.token_ids
                if not open_holes:
                    break
                given += len(before)
                del open_holes[0]
    assert given > 1000


def awkward(codec, segments, rng):
    """The same chat, with contents that templates look for."""
    found = list(segments)
    for i, segment in enumerate(found):
        if isinstance(segment, Generated) and not segment.calls and rng.random() < 0.5:
            text = f"<think>\nhm {i}\n</think>\n\nso {i}"
            found[i] = Generated(text, literal_ids(codec, text), codec.fingerprint)
        elif isinstance(segment, Text) and rng.random() < 0.5:
            found[i] = Text(rng.choice(FILLED))
    return found


FRAMES = {
    "Qwen-Qwen2.5-7B-Instruct": ('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>"),
    "Qwen-Qwen3-0.6B": ('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>"),
    "meta-llama-Llama-3.1-8B-Instruct": ('{"name": "', '", "parameters": ', "}"),
    "deepseek-ai-DeepSeek-V3.1": (
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
    ),
    "ibm-granite-granite-4.0": ('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>"),
    "unsloth-mistral-Devstral-Small-2507": ("[TOOL_CALLS]", "[ARGS]", ""),
}


@pytest.mark.parametrize("name", FRAMES)
def test_call_frames(archive, name):
    codec = codec_of((archive / f"{name}.jinja").read_text("utf-8"), name)
    frame = codec.call_frame
    assert (frame.before, frame.middle, frame.after) == FRAMES[name]
    for text in frame.special:
        assert text in codec.vocab.special_ids


def test_calls_around_calls(archive):
    """What stands once around all calls is told from what stands around each."""
    name = "deepseek-ai-DeepSeek-V3.1"
    frame = codec_of((archive / f"{name}.jinja").read_text("utf-8"), name).call_frame
    assert (frame.first, frame.last) == ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("google-gemma-2-2b-it", "shows no calls"),
        ("moonshotai-Kimi-K2", "writes several calls in another way than one"),
        ("mistralai-Mistral-Nemo-Instruct-2407", "writes ids"),
    ],
)
def test_no_frame_falls_back_to_a_json_array(archive, name, why):
    codec = codec_of((archive / f"{name}.jinja").read_text("utf-8"), name)
    assert codec.call_frame.first == "["
    assert any("JSON array" in note and why in note for note in codec.notes)


def test_stripped_reasoning_is_a_reported_loss(archive):
    """Qwen3 drops reasoning of answered turns: ids after it cannot be shared, and it is said."""
    name = "Qwen-Qwen3-0.6B"
    codec = codec_of((archive / f"{name}.jinja").read_text("utf-8"), name)
    first = (Open("user"), Text("2+2?"), Close())
    text = "<think>\nIt is four, I think.\n</think>\n\n4"
    made = Generated(text, literal_ids(codec, text), codec.fingerprint)
    chat = (*first, Open("assistant"), made, Close(), Open("user"), Text("Sure?"), Close())
    encoded = codec.encode((), chat)
    assert "four" not in text_of(codec, encoded.token_ids)
    (loss,) = encoded.losses
    assert loss.reason == "template_rewrite"
    computed = (*codec.encode((), first).token_ids, *made.token_ids)
    shared = len(computed) - loss.lost_tokens
    assert encoded.token_ids[:shared] == computed[:shared]
    assert encoded.token_ids[shared] != computed[shared]


REOPENED = {
    # They open an earlier answer otherwise than they ask for one, in chats rendered whole.
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "llama-cpp-rwkv-world",
}


@pytest.mark.parametrize("shard", range(8))
def test_appended_answers_stand_as_they_were_made(archive, shard):
    """With reasoning and whitespace that templates would drop: every prompt goes on from it."""
    for name in names(archive)[shard::8]:
        if name in REFUSED:
            continue
        codec = codec_of((archive / f"{name}.jinja").read_text("utf-8"), name)
        chat: tuple[Segment, ...] = ()
        computed: tuple[int, ...] = ()
        for index in range(3):
            chat = (*chat, Open("user"), Text(f"question {index}"), Close())
            encoded = codec.encode((), chat, "append")
            if index:
                shared = encoded.token_ids[: len(computed)] == computed
                assert shared or name in REOPENED, name
                assert shared == (encoded.losses == ()), f"{name}: every loss is told"
            text = f"<think>\nIt is {index}, I think.\n</think>\n\n {index} \n"
            made = Generated(text, literal_ids(codec, text), codec.fingerprint)
            computed = (*encoded.token_ids, *made.token_ids)
            chat = (*chat, Open("assistant"), made, Close())


def test_kept_answers_lose_nothing(archive):
    name = "Qwen-Qwen3-0.6B"
    codec = codec_of((archive / f"{name}.jinja").read_text("utf-8"), name)
    first = (Open("user"), Text("2+2?"), Close())
    asked = codec.encode((), first).token_ids
    made = Generated("4", literal_ids(codec, "4"), codec.fingerprint)
    chat = (*first, Open("assistant"), made, Close(), Open("user"), Text("Sure?"), Close())
    encoded = codec.encode((), chat)
    assert encoded.losses == ()
    assert encoded.token_ids[: len(asked) + 1] == (*asked, *made.token_ids)
