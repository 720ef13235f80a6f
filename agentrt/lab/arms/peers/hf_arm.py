"""transformers as a peer: a static batch, or its own continuous batching.

Runs in the peers' environment and answers the questions of `engine_arm.py`. The static batch is
the code of a careful user: sdpa, one forward for all prompts with logits of their last rows only,
then a forward a step over the cache; a shared prefix is computed once.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import transformers
from answering import Json, answer_lines

_PAGE_TOKENS = 16
_BATCH_TOKENS = 2048


class PaddedBatch:
    """A model and a cache that grows by a token a step."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._model = _model(settings)
        self._device = settings["device"]

    def use_experts(self, implementation: str) -> None:
        """Compute experts in this way of transformers from now on."""
        self._model.set_experts_implementation(implementation)

    @torch.inference_mode()
    def round(self, prompts: list[list[int]], new_tokens: int, shared: int) -> dict[str, Any]:
        """Compute all prompts, then decode them together."""
        cache = transformers.DynamicCache(config=self._model.config)
        ids = torch.tensor(prompts, device=self._device)
        began_s = self._now_s()
        if shared:
            self._model(ids[:1, :shared], past_key_values=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(len(prompts))
        out = self._model(ids[:, shared:], past_key_values=cache, logits_to_keep=1)
        last = out.logits[:, -1].argmax(-1, keepdim=True)
        prefilled_s = self._now_s()
        columns = [last]
        for _ in range(new_tokens - 1):
            out = self._model(last, past_key_values=cache)
            last = out.logits[:, -1].argmax(-1, keepdim=True)
            columns.append(last)
        ended_s = self._now_s()
        return {
            "prefill_s": prefilled_s - began_s,
            "decode_s": ended_s - prefilled_s,
            "decode_steps": new_tokens - 1,
            "outputs": torch.cat(columns, 1).tolist(),
            "cached_tokens": shared * (len(prompts) - 1),
        }

    def _now_s(self) -> float:
        if self._device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


class ContinuousBatching:
    """Continuous batching; its loop runs on between rounds as in a server."""

    def __init__(self, settings: dict[str, Any]) -> None:
        model = _model(settings)
        self._loop = model.init_continuous_batching(
            transformers.GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0),
            transformers.ContinuousBatchingConfig(
                page_size=_PAGE_TOKENS,
                num_blocks=settings["kv_tokens"] // _PAGE_TOKENS,
                max_batch_tokens=_BATCH_TOKENS,
            ),
        )
        self._loop.start()

    def round(self, prompts: list[list[int]], new_tokens: int, shared: int) -> dict[str, Any]:
        """Serve all prompts; steps are recognised by the time of each token."""
        del shared  # it finds prefixes by itself
        began_s = time.perf_counter()
        names = self._loop.add_requests(prompts, max_new_tokens=new_tokens, record_timestamps=True)
        ended: dict[str, Any] = {}
        while len(ended) < len(prompts):
            one = self._loop.get_result(timeout=1)
            if one is None and not self._loop.is_running():
                raise RuntimeError("its loop has ended")
            if one is not None and one.error:
                raise RuntimeError(one.error)
            if one is not None and one.is_finished():
                ended[one.request_id] = one
        times = [ended[name].timestamps for name in names]
        first_s = max(one[0] for one in times)
        last_s = min(one[-1] for one in times)
        return {
            "prefill_s": first_s - began_s,
            "decode_s": last_s - first_s,
            "decode_steps": min(sum(first_s < at_s <= last_s for at_s in one) for one in times),
            "outputs": [ended[name].generated_tokens for name in names],
        }


def _model(settings: dict[str, Any]) -> Any:
    torch.set_num_threads(settings["threads"])
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    more = {"experts_implementation": settings["experts"]} if settings.get("experts") else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        settings["model"],
        dtype=getattr(torch, settings["dtype"]),
        attn_implementation="sdpa",
        **more,
    )
    return model.to(settings["device"]).eval()


class TransformersArm:
    """A model that computes rounds in one of the two ways."""

    def open(self, settings: Json) -> Json:
        """Load the model; memory for keys and values chooses continuous batching."""
        self._batch = (ContinuousBatching if settings["kv_tokens"] else PaddedBatch)(settings)
        return {"version": transformers.__version__}

    def round(
        self, prompts: list[list[int]], new_tokens: int, shared: int, ignore_eos: bool = True
    ) -> Json:
        """Compute one batch; no output ends by itself."""
        return self._batch.round(prompts, new_tokens, shared)


if __name__ == "__main__":
    answer_lines(TransformersArm())
