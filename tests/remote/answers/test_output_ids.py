"""Ids of an answer and their text are the same however the stream is cut, and end where it ends."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.errors import RequestRejected
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import TokenLogprob
from agentrt.remote.answers.output_ids import OutputIds

TEXT = "A naïve café, 東京 \U0001f600 end. Then more."


@pytest.fixture(scope="module")
def codec(tiny):
    return Codec.load(tiny.model_path)


def asked(stop=(), written=(), keep_special=False, logprobs=0):
    return GenerateRequest(
        RequestId(1),
        RunId("r"),
        NodeId("n"),
        "",
        TokenPrompt((1,)),
        SamplingParams(stop=stop, logprobs=logprobs),
        keep_special=keep_special,
        output_ids=written,
    )


def read(codec, request, pieces, *, at_limit=False):
    output = OutputIds(codec, request)
    text = "".join([output.feed_ids(piece) for piece in pieces]) + output.end(at_limit=at_limit)
    return text, output.take_tokens()[0], output.stopped_by


@given(cuts=st.lists(st.integers(0, 60), max_size=6), data=st.data())
def test_the_cuts_of_a_stream_do_not_matter(codec, cuts, data):
    ids = (*codec.text_ids(TEXT), codec.vocab.eos_ids[0])
    edges = sorted({0, len(ids), *(one for one in cuts if one < len(ids))})
    pieces = [ids[a:b] for a, b in pairwise(edges)]
    stop = data.draw(st.sampled_from([(), ("end",), ("café", "naïve")]))
    assert read(codec, asked(stop), pieces) == read(codec, asked(stop), [ids])


def test_the_token_of_the_end_is_no_output(codec):
    ids, end = codec.text_ids(TEXT), codec.vocab.eos_ids[0]
    assert read(codec, asked(), [ids, (end,)]) == (TEXT, ids, "")
    assert read(codec, asked(), [ids]) == (TEXT, ids, "")


def test_an_end_that_is_passed_over_stays(codec):
    ids, end = codec.text_ids(TEXT), codec.vocab.eos_ids[0]
    text, kept, _ = read(codec, asked(), [(end,), ids, (end,)], at_limit=True)
    assert (text, kept) == (TEXT, (end, *ids, end))


def test_a_text_ends_before_a_stop_string(codec):
    ids = codec.text_ids(TEXT)
    text, kept, stopped_by = read(codec, asked(("end",)), [ids])
    assert (text, stopped_by) == (TEXT[: TEXT.index("end")], "end")
    assert kept == ids[: len(kept)]


@given(at=st.integers(0, 60))
def test_an_output_goes_on_behind_the_ids_that_were_handed_on(codec, at):
    ids = codec.text_ids(TEXT)
    first = OutputIds(codec, asked(("Then",)))
    begun = first.feed_ids(ids[:at])
    written = first.take_tokens()[0]
    request = replace(asked(("Then",)), output_ids=written)
    text, kept, stopped_by = read(codec, request, [ids[len(written) :]])
    whole = read(codec, asked(("Then",)), [ids])
    if not first.stopped_by:
        assert (begun + text, written + kept, stopped_by) == whole


def test_special_tokens_are_text_where_a_request_keeps_them(codec):
    marker = next(one for one in codec.parts.markers.values() if one.hidden)
    if marker.token_id in codec.vocab.eos_ids:
        pytest.skip("it ends outputs")
    assert read(codec, asked(), [(marker.token_id,)])[0] == ""
    assert read(codec, asked(keep_special=True), [(marker.token_id,)])[0] == marker.text


def entries(ids):
    return [TokenLogprob(one, -1.0, ((one, -1.0), (0, -2.0), (1, -3.0))) for one in ids]


@given(cuts=st.lists(st.integers(0, 60), max_size=6))
def test_each_id_has_its_entry_however_the_stream_is_cut(codec, cuts):
    end = codec.vocab.eos_ids[0]
    ids = (end, *codec.text_ids(TEXT), end)
    output = OutputIds(codec, asked(logprobs=2))
    taken = []
    for a, b in pairwise(sorted({0, len(ids), *(one for one in cuts if one < len(ids))})):
        output.feed_ids(ids[a:b], entries(ids[a:b]))
        taken.append(output.take_tokens())
    output.end(at_limit=False)
    taken.append(output.take_tokens())
    assert all(len(some) == len(logprobs) for some, logprobs in taken)
    found = [one for _, logprobs in taken for one in logprobs]
    assert [one.token_id for one in found] == list(ids[:-1])
    assert {len(one.top) for one in found} == {2}


def test_ids_without_the_entries_that_were_asked_for_are_refused(codec):
    output = OutputIds(codec, asked(logprobs=1))
    with pytest.raises(RequestRejected, match="without the log-probabilities"):
        output.feed_ids((5, 6), entries((5,)))
