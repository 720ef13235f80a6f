"""Warm-ups of prompts that go as messages: the server's template shows where they begin."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.base.segments import Close, Hole, Open, Segment, Text
from agentrt.prompt import Codec
from agentrt.protocol.backend import HoleFill, MessagePrompt
from agentrt.remote.warming.rendered_prefix import (
    MARKERS,
    common_part,
    known_segments,
    likely_ids,
    with_marker,
)
from tests.remote.warming.prefix_server import PrefixServer, playing, rendered, request

NOTES = " ".join(f"note {number}," for number in range(200))
LONG = (Open("system"), Text("Be brief."), Close(), Open("user"), Text(NOTES))


@pytest.fixture(scope="module")
def codec(tiny):
    return Codec.load(tiny.model_path)


def asked(hole, more=()):
    """The segments of a chat with a part that may be pending."""
    return (*LONG, hole, Text(" Which?"), Close(), *more)


async def played(server, codec, kind="vllm", template=None, **more):
    """A request over messages, with a hole that is filled later; returns its end."""
    if template is not None:
        server.render = template
    async with playing(codec, server, kind=kind, tokenizer="") as play:
        assert play.backend.capabilities.holes
        assert play.backend.capabilities.prompt == "messages"
        prompt = MessagePrompt(asked(Hole("tool")), complete=False)
        waiting = replace(request(1, range(1), complete=False), prompt=prompt, **more)
        play.backend.submit(waiting)
        await play.idle()
        assert not server.chats
        fill = HoleFill((), complete=True, segments=asked(Text("the result")))
        play.backend.fill_hole(RequestId(1), fill)
        return await play.end_of(1)


def test_ids_of_the_template_are_warmed(portal, codec):
    server = PrefixServer()
    end = portal.call(played, server, codec)
    (warm_up,) = server.bodies
    (chat,) = server.chats
    ids = list(map(ord, rendered(chat["messages"])))
    assert chat["messages"][-1]["content"] == f"{NOTES}the result Which?"
    assert warm_up["prompt"] == ids[: len(warm_up["prompt"])]
    assert len(warm_up["prompt"]) > len(NOTES) - 64
    assert warm_up["max_tokens"] == 1
    assert [set(one) for one in server.shown] == [{"model", "messages"}] * 2
    assert end.reason == "stop"
    assert end.ledger.warmed_tokens == len(warm_up["prompt"])


def test_text_of_the_template_is_warmed(portal, codec):
    """llama-server gets the whole chat to show, and produces nothing for a warm-up."""
    server = PrefixServer()
    end = portal.call(played, server, codec, "llama-server")
    assert end.not_warmed == ""
    (warm_up,) = server.bodies
    (chat,) = server.chats
    assert warm_up["prompt"].endswith("note 199,")
    assert rendered(chat["messages"]).startswith(warm_up["prompt"])
    assert warm_up["max_tokens"] == 0


def test_words_of_a_constraint_are_part_of_the_beginning(portal, codec):
    server = PrefixServer()
    spec = ConstraintSpec("grammar", 'start: "a"\n')
    portal.call(lambda: played(server, codec, "llama-server", constraint=spec))
    (warm_up,) = server.bodies
    assert "Be brief.\n" in warm_up["prompt"]
    assert rendered(server.chats[0]["messages"]).startswith(warm_up["prompt"])


def test_a_template_that_begins_with_what_follows_is_not_warmed(portal, codec):
    server = PrefixServer()
    end = portal.call(played, server, codec, "vllm", lambda found: found[-1]["content"][::-1])
    assert server.bodies == []
    assert end.reason == "stop"
    assert end.not_warmed == "the template writes the beginning by what follows"


def test_a_kind_that_does_not_show_its_template_has_no_holes(portal, codec):
    async def main():
        async with playing(codec, PrefixServer(), kind="sglang", tokenizer="") as play:
            return play.backend.capabilities.holes

    assert not portal.call(main)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(TEXTS, max_size=4), TEXTS, st.lists(TEXTS, max_size=2), TEXTS)
def test_what_two_markers_have_in_common_begins_every_prompt(before, begun, behind, value):
    def prompt(hole: Segment) -> tuple[Segment, ...]:
        return (Open("user"), *map(Text, before), hole, *map(Text, behind), Close())

    def text(segments):
        return "<user>" + "".join(one.text for one in segments if isinstance(one, Text)) + "</>"

    hole = Hole("node", begun=(begun,) if begun else ())
    first, second = (text(with_marker(prompt(hole), one)) for one in MARKERS)
    prefix = first[: common_part(first, second)]
    assert prefix == "<user>" + "".join(before) + begun
    final = prompt(Text(begun + value))
    assert text(final).startswith(prefix)
    known, whole = likely_ids(prompt(hole), ()), likely_ids(final, ())
    assert whole[: len(known)] == known
    assert text(known_segments(prompt(hole))) == prefix + "</>"
