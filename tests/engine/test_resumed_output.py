"""A request goes on behind the output that it had at a lost engine, token by token the same."""

from typing import Any

import pytest

from agentrt.base.constraint_spec import ConstraintSpec

PROMPT = [(13 * at) % 249 for at in range(40)]
REQUESTS: dict[str, dict[str, Any]] = {
    "free": {"max_tokens": 24},
    "sampled": {"max_tokens": 24, "temperature": 1.0, "top_k": 20, "seed": 7},
    "penalties": {"max_tokens": 24, "repetition_penalty": 1.3, "presence_penalty": 0.5},
    "stop string": {"max_tokens": 24, "stop": ("a", "bb")},
    "logprobs": {"max_tokens": 12, "logprobs": 3},
    "regex": {"max_tokens": 24, "constraint": ConstraintSpec("regex", "[ab]{3,9}c*")},
    "json": {
        "max_tokens": 60,
        "constraint": ConstraintSpec(
            "json", '{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":4}'
        ),
    },
    "closed at the limit": {
        "max_tokens": 9,
        "on_limit": "close",
        "constraint": ConstraintSpec("json", '{"type":"array","items":{"type":"boolean"}}'),
    },
}


@pytest.fixture
def serve(tokenizer_dir, engine):
    def served(numbered, jump_forward=True):
        core = engine.hash_core(tokenizer_dir, eos_bias=-2.0, jump_forward=jump_forward)
        for number, (output_ids, settings) in numbered.items():
            request = engine.request(number, PROMPT, **settings)
            core.submit(engine.replace(request, output_ids=tuple(output_ids)))
        return engine.drain(core)

    return served


@pytest.mark.parametrize("jump_forward", [True, False])
@pytest.mark.parametrize("name", REQUESTS)
def test_an_output_goes_on_where_it_was_cut(serve, name, jump_forward):
    settings = REQUESTS[name]
    whole = serve({0: ((), settings)}, jump_forward)
    ids, text = whole.ids(0), whole.text(0)
    assert len(ids) > 3
    cuts = range(1, len(ids))
    rest = serve({cut: (ids[:cut], settings) for cut in cuts}, jump_forward)
    for cut in cuts:
        assert ids[:cut] + rest.ids(cut) == ids
        assert text.endswith(rest.text(cut))
        end, expected = rest.ends[cut], whole.ends[0]
        assert (end.reason, end.closed_early, end.stopped_by) == (
            expected.reason,
            expected.closed_early,
            expected.stopped_by,
        )
        assert end.ledger.output_tokens == expected.ledger.output_tokens
        assert [one.token_id for one in rest.logprobs(cut)] == (
            ids[cut:] if "logprobs" in settings else []
        )


def test_the_text_goes_on_behind_the_text_that_was_told(serve):
    """Text that was held back, such as the beginning of a stop string, comes with the rest."""
    settings = REQUESTS["stop string"]
    told: list[str] = []
    whole = serve({0: ((), settings)})
    ids: list[int] = []
    for delta in whole.deltas[0]:
        ids += delta.token_ids
        told.append(delta.text)
        if len(ids) < len(whole.ids(0)):
            rest = serve({1: (ids, settings)})
            assert "".join(told) + rest.text(1) == whole.text(0)


def test_an_output_that_was_complete_ends_at_once(serve):
    settings = {"max_tokens": 5}
    ids = serve({0: ((), settings)}).ids(0)
    rest = serve({1: (ids, settings)})
    assert rest.ids(1) == []
    assert rest.ends[1].reason == "length"


@pytest.mark.parametrize(
    ("output_ids", "settings", "message"),
    [
        ([9999], {"max_tokens": 5}, "token id 9999"),
        ([1], REQUESTS["regex"], "refuses token 1"),
        ([1], {"max_tokens": 5, "complete": False}, "incomplete prompt"),
    ],
)
def test_an_output_that_cannot_be_is_refused(serve, output_ids, settings, message):
    end = serve({0: (output_ids, settings)}).ends[0]
    assert end.reason == "failed"
    assert message in end.error.message
