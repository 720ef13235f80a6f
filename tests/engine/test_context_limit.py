"""A context ends where the angles of its positions would change."""

import pytest

from agentrt.engine.models.context_limit import context_limit

LONGROPE = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}


@pytest.mark.parametrize(
    "config",
    [
        {"rope_scaling": LONGROPE, "original_max_position_embeddings": 24},
        {"rope_parameters": {**LONGROPE, "original_max_position_embeddings": 24}},
        {
            "rope_parameters": {
                "full_attention": {**LONGROPE, "original_max_position_embeddings": 24}
            }
        },
        {"text_config": {"rope_scaling": LONGROPE, "original_max_position_embeddings": 24}},
    ],
    ids=["top", "rope", "layer type", "text"],
)
def test_longrope_ends_at_the_original_length(config):
    limit = context_limit({"max_position_embeddings": 96, **config})
    assert limit.tokens == 24
    assert "over 24 tokens" in limit.reason


def test_angles_of_each_length_reach_as_far_as_the_config_says():
    config = {"max_position_embeddings": 96, "rope_scaling": LONGROPE}
    config["original_max_position_embeddings"] = 24
    limit = context_limit(config, follows_length=True)
    assert (limit.tokens, limit.reason) == (96, "")


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"max_position_embeddings": 96}, 96),
        ({"n_positions": 64}, 64),
        ({"text_config": {"max_position_embeddings": 32}}, 32),
        ({"max_position_embeddings": 96, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, 96),
        ({"max_position_embeddings": 96, "rope_scaling": LONGROPE}, 96),
        ({}, 0),
    ],
    ids=str,
)
def test_others_end_where_the_config_says(config, tokens):
    limit = context_limit(config)
    assert (limit.tokens, limit.reason) == (tokens, "")


def test_longer_sequences_are_refused(engine, tmp_path):
    """One that would cross is cut at the threshold; one that begins beyond it is refused."""
    rope = {**LONGROPE, "rope_theta": 1e4, "rope_type": LONGROPE["type"]}
    sizes = {"max_position_embeddings": 96, "original_max_position_embeddings": 40}
    engine.save_model("llama", tmp_path, rope_parameters=rope, **sizes)
    core = engine.core(tmp_path, page_tokens=4)
    core.submit(engine.request(0, range(36), max_tokens=9, ignore_eos=True))
    core.submit(engine.request(1, range(50), max_tokens=9))
    seen = engine.drain(core)
    core.close()
    assert len(seen.ids(0)) == 4
    assert seen.ends[1].error.type == "ContextOverflow"
