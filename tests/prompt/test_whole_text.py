"""A chat's ids are those that the model's own tokenizer gives to the text its template writes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from agentrt import embedded
from agentrt.base.errors import RequestRejected
from agentrt.base.json_style import styled_json
from agentrt.base.segments import Close, Hole, Open, Text
from agentrt.prompt import Codec
from agentrt.structured import JsonRendering
from agentrt.structured.rendering.places import plain_place

MODELS = {
    "qwen2": ("Qwen-Qwen2.5-7B-Instruct", "<|im_end|>"),
    "llama-bpe": ("meta-llama-Llama-3.1-8B-Instruct", "<|eot_id|>"),
    "phi-3": ("microsoft-Phi-3.5-mini-instruct", "<|end|>"),
}
WORDS = (
    *("the", "don't", "I'", "ll", "12", "345", ".", '{"a":', "naïve", "東京", "e", "\u0301", "✈"),
    *(" ", "  ", "\n", "\n\n", "\t", " \n", "\r\n", "\u00a0", ""),
)
STYLES = ("compact", "spaced", "indented")
parts = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), min_size=1, max_size=6)


@pytest.fixture(scope="module", params=MODELS)
def model(request, real_codec, real_tokenizer, archive):
    template, eos = MODELS[request.param]
    source = (archive / f"{template}.jinja").read_text("utf-8")
    codec = real_codec(request.param, source, eos)
    return codec, Tokenizer.from_str(real_tokenizer(request.param))


@settings(derandomize=True, max_examples=80, deadline=None)
@given(chat=st.lists(parts, min_size=1, max_size=4), system=parts, pending=st.integers(0, 3))
def test_segments_equal_the_whole_text(model, chat, system, pending):
    codec, tokenizer = model
    segments = [Open("system"), *map(Text, system), Close()]
    for index, message in enumerate(chat):
        segments += [Open("assistant" if index % 2 else "user"), *map(Text, message), Close()]
    if len(chat) % 2 == 0:
        segments += [Open("user"), Text("And?"), Close()]
    encoded = codec.encode((), segments)
    text = codec.render((), segments)
    assert list(encoded.token_ids) == tokenizer.encode(text, add_special_tokens=False).ids
    assert encoded.losses == ()
    known = [i for i, segment in enumerate(segments) if isinstance(segment, Text)]
    at = known[pending % len(known)]
    holed = [*segments[:at], Hole("n"), *segments[at + 1 :]]
    sealed = codec.encode((), holed)
    assert not sealed.complete
    assert encoded.token_ids[: len(sealed.token_ids)] == sealed.token_ids


@settings(derandomize=True, max_examples=80, deadline=None)
@given(before=parts, text=parts, after=parts)
def test_a_text_that_has_begun_is_known_as_far_as_it_is_final(model, before, text, after):
    """However it is cut into parts, its ids are those of the whole, and they only grow."""
    codec, _ = model
    head, tail = (Open("user"), *map(Text, before)), (*map(Text, after), Close())
    whole = codec.encode((), (*head, Text("".join(text)), *tail))
    known: tuple[int, ...] = ()
    for count in range(len(text) + 1):
        hole = Hole("n", begun=tuple(text[:count]))
        encoded = codec.encode((), (*head, hole, *tail))
        assert not encoded.complete
        assert encoded.token_ids[: len(known)] == known
        known = encoded.token_ids
    assert whole.token_ids[: len(known)] == known


values = st.recursive(
    st.integers(-99, 99) | st.floats(-1e9, 1e9) | st.none() | st.lists(st.sampled_from(WORDS)),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inside, max_size=3)
    ),
    max_leaves=6,
)


@settings(derandomize=True, max_examples=80, deadline=None)
@given(value=values, data=st.data(), before=parts, after=parts)
def test_a_value_that_has_begun_is_known_as_far_as_it_is_final(model, value, data, before, after):
    """Written in one style and put into a prompt of any, its ids are those of the whole."""
    codec, _ = model
    source = styled_json(value, data.draw(st.sampled_from(STYLES)))
    style = data.draw(st.sampled_from(STYLES))
    head, tail = (Open("user"), *map(Text, before)), (*map(Text, after), Close())
    whole = codec.encode((), (*head, Text(styled_json(value, style)), *tail))
    rendering = JsonRendering(plain_place(json.loads), style)
    step = data.draw(st.integers(1, 9))
    begun, known = [], ()
    for at in range(0, len(source), step):
        begun.append(rendering.feed(source[at : at + step]))
        encoded = codec.encode((), (*head, Hole("n", begun=tuple(begun)), *tail))
        assert encoded.token_ids[: len(known)] == known
        known = encoded.token_ids
    assert whole.token_ids[: len(known)] == known


@pytest.mark.parametrize("length", [1, 100_000])
def test_half_of_a_surrogate_pair_is_refused(length):
    codec = Codec.load(embedded.path())
    with pytest.raises(RequestRejected, match="surrogate"):
        codec.count("x" * length + "\ud800")
