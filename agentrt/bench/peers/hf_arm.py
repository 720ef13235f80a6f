"""transformers as a peer: a static batch, or its own continuous batching.

Runs in the peers' environment. Questions and answers are lines of JSON, as in `engine_arm`. The
static batch is what a careful user writes: sdpa, one forward for all prompts, logits of their last
rows only, then a forward a step over the cache; of a shared prefix one copy is computed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import transformers


class StaticArm:
    """A model and a cache that grows by a token a step."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._model = _model(settings, attention="sdpa")
        self._device = settings["device"]

    @torch.inference_mode()
    def round(self, prompts: list[list[int]], new_tokens: int, shared: int) -> dict[str, Any]:
        """Compute all prompts, then decode them together."""
        cache = transformers.DynamicCache(config=self._model.config)
        ids = torch.tensor(prompts, device=self._device)
        began_s = self._now_s()
        if shared:
            self._model(ids[:1, :shared], past_key_values=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(len(prompts))
        told = self._model(ids[:, shared:], past_key_values=cache, logits_to_keep=1)
        last = told.logits[:, -1].argmax(-1, keepdim=True)
        prefilled_s = self._now_s()
        columns = [last]
        for _ in range(new_tokens - 1):
            told = self._model(last, past_key_values=cache)
            last = told.logits[:, -1].argmax(-1, keepdim=True)
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


class ContinuousArm:
    """`generate_batch` with its manager kept between rounds."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._model = _model(settings, attention="sdpa")

    def round(self, prompts: list[list[int]], new_tokens: int, shared: int) -> dict[str, Any]:
        """Serve all prompts; steps are told apart by the time of each token."""
        del shared  # it finds prefixes by itself where it can
        config = transformers.GenerationConfig(
            do_sample=False, max_new_tokens=new_tokens, eos_token_id=-1, pad_token_id=0
        )
        began_s = time.perf_counter()
        told = self._model.generate_batch(
            prompts,
            generation_config=config,
            record_timestamps=True,
            persistent_manager=True,
            progress_bar=False,
        )
        if len(told) != len(prompts) or any(one.error for one in told.values()):
            raise RuntimeError(next((one.error for one in told.values() if one.error), "no answer"))
        times = [one.timestamps for one in told.values()]
        first_s = max(one[0] for one in times)
        last_s = min(one[-1] for one in times)
        steps = min(sum(first_s < at_s <= last_s for at_s in one) for one in times)
        return {
            "prefill_s": first_s - began_s,
            "decode_s": last_s - first_s,
            "decode_steps": steps,
            "outputs": [one.generated_tokens for one in told.values()],
        }


def _model(settings: dict[str, Any], *, attention: str) -> Any:
    torch.set_num_threads(settings["threads"])
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        settings["model"],
        dtype=getattr(torch, settings["dtype"]),
        attn_implementation=attention,
    )
    return model.to(settings["device"]).eval()


def main() -> None:
    """Answer until standard input ends."""
    arm: StaticArm | ContinuousArm | None = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if question["do"] == "open":
                kind = ContinuousArm if question["settings"]["continuous"] else StaticArm
                arm = kind(question["settings"])
                told: dict[str, Any] = {"version": transformers.__version__}
            else:
                assert arm is not None
                told = arm.round(question["prompts"], question["new_tokens"], question["shared"])
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
