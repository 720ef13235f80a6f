"""Architectures beyond the promised ones: they page as they are, or say that they do not."""

import pytest

from agentrt.base.errors import ModelInvalid


@pytest.mark.parametrize(
    "kind", ["phi3", "granite", "olmoe", "gemma3_text", "gpt2", "gpt_neox", "opt"]
)
def test_other_architectures_equal_the_reference(kind, engine, tmp_path):
    engine.compare_logits(kind, tmp_path, page_tokens=4, tile_tokens=64)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("deepseek_v3", "compressed latent layers, whose state does not page"),
        ("mamba", "linear_attention layers, whose state does not page"),
        ("bloom", "does not attend through the function that the engine replaces"),
    ],
)
def test_what_cannot_page_is_refused(kind, says, engine, tmp_path):
    engine.save_model(kind, tmp_path)
    with pytest.raises(ModelInvalid, match=says) as caught:
        engine.core(tmp_path)
    assert "--engine URL" in caught.value.hint
