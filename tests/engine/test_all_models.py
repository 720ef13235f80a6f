"""Every causal language model of transformers: equal to `generate()`, or refused in one line.

Each family is tiny and random. A sliding window, a scale of temperatures and a chunk of attention
are so short that every output crosses them.
"""

import random
import re
from typing import Any

import pytest
import torch
import transformers

from agentrt.base.errors import ModelInvalid
from tests.engine import tiny_models
from tests.engine.model_outcomes import FAST, MODULES, SLICE, UNBUILT
from tests.engine.transformers_said import EPSILON, said

NEW_TOKENS = 64
REFUSED = sorted({*tiny_models.FAMILIES} - FAST - MODULES - UNBUILT)
FOREIGN = re.compile(r"\w*(Error|Exception)\b")
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
LONGROPE = {"rope_type": "longrope", "short_factor": [1.5] * 4, "long_factor": [4.0] * 4}
ROPES: dict[str, dict[str, Any]] = {
    "yarn": {"rope_parameters": {**YARN, "rope_theta": 1e4}},
    "dynamic": {"rope_parameters": {**DYNAMIC, "rope_theta": 1e4}, "max_position_embeddings": 128},
    "longrope": {
        "rope_parameters": {**LONGROPE, "rope_theta": 1e4},
        "original_max_position_embeddings": 128,
    },
}


def prompts():
    """A long and a short one; the third begins like the first."""
    rng = random.Random(3)
    stem = [rng.randrange(256) for _ in range(40)]
    return [stem[:cut] + [rng.randrange(256) for _ in range(5)] for cut in (38, 3, 22)]


def marked(families):
    """The families, all but the slice marked as slow."""
    return [
        family if family in SLICE else pytest.param(family, marks=pytest.mark.slow)
        for family in sorted(families)
    ]


def save(engine, family, path, **settings):
    """A tiny checkpoint of this family."""
    tiny_models.tiny_model(family, **settings).save_pretrained(path)
    engine.save_tokenizer(path)


def check_equal(engine, path, expected_path):
    """Mixed lengths in one batch, in chunks, and then a prefix that is found again."""
    core = engine.core(path, page_tokens=4, prefill_chunk_tokens=9, self_check="always")
    report = core.executor.runner.model.report
    assert report.path == expected_path, report.path_reason
    for number, prompt in enumerate(prompts()[:2]):
        core.submit(engine.request(number, prompt, max_tokens=NEW_TOKENS))
    seen = engine.drain(core)
    core.submit(engine.request(2, prompts()[2], max_tokens=NEW_TOKENS))
    engine.drain(core, seen)
    core.close()
    assert seen.ends[2].ledger.cached_tokens >= 20
    for number, prompt in enumerate(prompts()):
        theirs, gaps = said(path, prompt, NEW_TOKENS)
        theirs = theirs[: theirs.index(257)] if 257 in theirs else theirs
        mine = seen.ids(number)
        at = next(
            (at for at, two in enumerate(zip(mine, theirs, strict=False)) if two[0] != two[1]), -1
        )
        if at >= 0:
            assert gaps[at] < EPSILON, f"prompt {number}, token {at}: {mine} is not {theirs}"
        else:
            assert len(mine) == len(theirs)


@pytest.mark.parametrize("family", marked(FAST))
def test_the_fast_path_equals_generate(family, engine, tmp_path):
    save(engine, family, tmp_path)
    check_equal(engine, tmp_path, "fast")


@pytest.mark.parametrize("family", marked(MODULES))
def test_the_path_through_modules_equals_generate(family, engine, tmp_path):
    save(engine, family, tmp_path)
    check_equal(engine, tmp_path, "slow")


@pytest.mark.parametrize("family", marked(REFUSED))
def test_what_differs_is_refused_in_one_line(family, engine, tmp_path):
    save(engine, family, tmp_path)
    with pytest.raises(ModelInvalid) as caught:
        engine.core(tmp_path, self_check="always")
    message = caught.value.message.replace(str(tmp_path), "")
    assert "\n" not in message
    assert not FOREIGN.search(message), message


@pytest.mark.parametrize("family", marked(UNBUILT))
def test_what_has_no_tiny_model_yet_is_listed(family):
    """One that can be built belongs to the others."""
    with pytest.raises(Exception):  # noqa: B017, PT011  any error of its config or its code
        generate_two(family)


def generate_two(family):
    """Two tokens of its tiny model."""
    model = tiny_models.tiny_model(family)
    with torch.inference_mode():
        model.generate(torch.arange(9)[None], do_sample=False, max_new_tokens=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "rope"),
    [
        ("phi3", "longrope"),
        *((one, rope) for one in ("llama", "olmo2") for rope in ("yarn", "dynamic")),
    ],
)
def test_every_kind_of_rope_equals_generate_within_its_context(family, rope, engine, tmp_path):
    save(engine, family, tmp_path, **ROPES[rope])
    path = "fast" if family in FAST else "slow"
    check_equal(engine, tmp_path, path)


def test_every_family_has_one_outcome():
    assert not FAST & MODULES
    assert not (FAST | MODULES) & UNBUILT
    assert {*tiny_models.FAMILIES} >= FAST | MODULES | UNBUILT | SLICE
    assert len(tiny_models.FAMILIES) > 150, transformers.__version__
