"""EAGLE-3 heads: logits of the published formula, tokens of a run without one."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.engine.models.eagle3.head_network import NEVER
from tests.engine.eagle3_heads import CONFIG, HeadReference, save_head
from tests.engine.mixed_requests import (
    FREE,
    SMALL_STEPS,
    STEM,
    compare_twice,
    holds_nothing,
    request,
    serve,
)

NUMBERS = ConstraintSpec("json", '{"type":"array","items":{"type":"integer"},"maxItems":9}')
PROMPTS = [[*STEM[: 20 + number], 7] for number in range(3)]


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of five layers."""
    from tests.engine.conftest import save_model

    path = tmp_path_factory.mktemp("target")
    save_model("llama", path, num_hidden_layers=5)
    return path


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory, target: Path) -> Path:
    """A head that is often right: its `lm_head` is fitted to what the target says."""
    from tests.engine.conftest import Helpers

    path = tmp_path_factory.mktemp("head")
    save_head(path)
    core = Helpers.core(target, dtype="float32")
    prompts = [*PROMPTS, *PROMPTS]
    for number, prompt in enumerate(prompts):
        heat, seed = (0.0 if number < len(PROMPTS) else 0.8), number % len(PROMPTS)
        core.submit(Helpers.request(number, prompt, max_tokens=30, temperature=heat, seed=seed))
    served = Helpers.drain(core)
    core.close()
    reference = HeadReference(path, target)
    texts = [[*prompt, *served.ids(number)] for number, prompt in enumerate(prompts)]
    said = Counter(token for number in range(len(prompts)) for token in served.ids(number))
    kept = torch.tensor(sorted(token for token, _ in said.most_common(CONFIG["draft_vocab_size"])))
    states, wanted = [], []
    for text, prompt in zip(texts, prompts, strict=True):
        rows = reference.states(text, len(text))
        for at in range(len(prompt) - 2, len(rows) - 1):
            states.append(rows[at])
            wanted.append((kept == text[at + 2]).float())
    fitted = torch.linalg.lstsq(torch.stack(states), torch.stack(wanted)).solution.T
    drafts = torch.zeros(CONFIG["vocab_size"], dtype=torch.bool)
    drafts[kept] = True
    tensors = {
        "lm_head.weight": (8 * fitted).contiguous(),
        "d2t": kept - torch.arange(len(kept)),
        "t2d": drafts,
    }
    save_head(path, tensors=tensors, draft_vocab_size=len(kept))
    return path


def watched(core: Any, reference: HeadReference) -> Counter[str]:
    """Compare the logits of each forward of the head with the reference; counts the rows."""
    drafts, seen = core.executor.draft_model, Counter[str]()
    forward = drafts.forward

    def checked(slices: Any, open_drafts: Any) -> Any:
        logits = forward(slices, open_drafts)
        for row, one in zip(logits, open_drafts, strict=False):
            end = one.computed_tokens + len(one.next_tokens())
            known = min(one.row.sequence.computed_tokens, end - 1)
            expected = reference.logits(one.text[:end], known)
            torch.testing.assert_close(row[reference.targets], expected, atol=2e-4, rtol=1e-3)
            others = torch.ones(len(row), dtype=torch.bool)
            others[reference.targets] = False
            assert (row[others] == NEVER).all()
            seen["own states" if end > one.reach else "states of the target"] += 1
        return logits

    drafts.forward = checked
    return seen


def accepted(served: Any) -> tuple[int, int]:
    counts = [d for end in served.ends.values() for d in end.ledger.drafts if d.source == "eagle"]
    return sum(d.accepted_tokens for d in counts), sum(d.rejected_tokens for d in counts)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_logits_are_those_of_the_formula(kernels, target, head, engine, native_kernels):
    """Over chunks, prefix hits, a copied page, and pages that others had after a preemption."""
    core = engine.core(
        target,
        dtype="float32",
        kernels=kernels,
        page_tokens=8,
        prefill_chunk_tokens=16,
        kv_pages=12,
        speculate_tokens=3,
        draft_model=head,
        draft_texts="own",
    )
    seen = watched(core, HeadReference(head, target))
    for turn in range(2):
        for number, prompt in enumerate(PROMPTS):
            core.submit(engine.request(10 * turn + number, prompt, max_tokens=24))
        served = engine.drain(core)
        assert all(end.error is None for end in served.ends.values())
    assert sum(end.ledger.preemptions for end in served.ends.values())
    assert seen["own states"] > 10
    assert seen["states of the target"] > 10
    assert accepted(served)[0] > 0
    core.close()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("overlap", ["off", "on"])
def test_tokens_are_those_without_a_head(temperature, overlap, target, head, engine):
    told, right, wrong = [], 0, 0
    for draft in (None, head):
        core = engine.core(
            target,
            dtype="float32",
            page_tokens=8,
            prefill_chunk_tokens=16,
            overlap=overlap if draft else "off",
            speculate_tokens=4 if draft else "off",
            draft_model=draft,
        )
        for turn in range(2):
            for number in range(4):
                constraint = NUMBERS if number == 3 else None
                prompt = [*PROMPTS[number % 3], *([turn] if turn else [])]
                how = {"max_tokens": 30, "temperature": temperature, "seed": number}
                one = engine.request(10 * turn + number, prompt, constraint=constraint, **how)
                core.submit(engine.replace(one, site=f"{turn} {number}"))
            served = engine.drain(core)
            told.append([served.ids(10 * turn + number) for number in range(4)])
            right, wrong = right + accepted(served)[0], wrong + accepted(served)[1]
        holds_nothing(core)
        core.close()
    assert told[:2] == told[2:]
    assert right > 0
    assert wrong > 0


def test_what_an_aborted_sequence_drafted_is_not_kept(target, head, engine):
    core = engine.core(target, dtype="float32", page_tokens=8, speculate_tokens=3, draft_model=head)
    seen = watched(core, HeadReference(head, target))
    core.submit(engine.request(0, PROMPTS[0], max_tokens=30, temperature=0.8))
    engine.drain(core, most_steps=6)
    core.cancel(RequestId(0), "test")
    engine.drain(core)
    holds_nothing(core)
    core.submit(engine.request(1, [*PROMPTS[0], 9], max_tokens=12, temperature=0.8))
    engine.drain(core)
    assert sum(seen.values()) > 10
    core.close()


@pytest.mark.parametrize(
    ("settings", "own_embedding"),
    [
        ({"norm_before_residual": True}, False),
        ({"draft_vocab_size": None}, False),
        ({"eagle_config": None, "eagle_aux_hidden_state_layer_ids": [1, 2, 4]}, True),
    ],
)
def test_what_published_heads_differ_in(settings, own_embedding, target, tmp_path, engine):
    """Their residual, the vocabulary that they draft, their embedding, and how layers are named."""
    tensors: dict[str, Any] = {"embed_tokens.weight": torch.randn(262, 32)} if own_embedding else {}
    if settings.get("draft_vocab_size", 1) is None:
        tensors |= {"t2d": None, "d2t": torch.zeros(262, dtype=torch.int64)}
    save_head(tmp_path / "head", tensors=tensors, **settings)
    core = engine.core(target, dtype="float32", speculate_tokens=2, draft_model=tmp_path / "head")
    seen = watched(core, HeadReference(tmp_path / "head", target))
    core.submit(engine.request(0, PROMPTS[0], max_tokens=8))
    engine.drain(core)
    assert seen["own states"] > 2
    core.close()


@settings(FREE, max_examples=8)
@given(
    requests=st.lists(request, min_size=2, max_size=4),
    tokens=st.sampled_from([1, 3, "auto"]),
    overlap=st.sampled_from(["off", "on"]),
    kv_pages=st.sampled_from([24, 200]),
    host_kv_bytes=st.sampled_from([0, 200_000]),
)
def test_no_head_changes_a_token(
    requests, tokens, overlap, kv_pages, host_kv_bytes, target, head, engine
):
    """Whatever happens to the pages: holes, forks, aborts, preemptions, loads from the host."""
    how = {**SMALL_STEPS, "kv_pages": kv_pages, "dtype": "float32"}
    del how["eos_bias"]
    plain = engine.core(target, **how)
    expected = serve(plain, engine, requests)
    core = engine.core(
        target,
        overlap=overlap,
        speculate_tokens=tokens,
        draft_model=head,
        host_kv_bytes=host_kv_bytes,
        **how,
    )
    compare_twice(core, engine, requests, expected)
    plain.close()
    core.close()
