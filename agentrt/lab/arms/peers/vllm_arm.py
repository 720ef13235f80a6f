"""vLLM's engine without its server, for one batch at a time.

Runs in vLLM's own environment and answers the questions of `engine_arm.py`.
"""

from __future__ import annotations

from typing import Any

import vllm
from answering import Json, answer_lines


class VllmArm:
    """One engine; it runs in a process of its own, as under its server."""

    def open(self, settings: Json) -> Json:
        """Load the model; the settings are vLLM's own."""
        self._engine: Any = vllm.LLM(**settings, disable_log_stats=True)
        return {"version": vllm.__version__}

    def round(
        self, prompts: list[list[int]], new_tokens: int, shared: int, ignore_eos: bool = True
    ) -> Json:
        """Compute one batch."""
        del shared  # it finds prefixes by itself
        sampling = vllm.SamplingParams(
            temperature=0, max_tokens=new_tokens, ignore_eos=ignore_eos, detokenize=False
        )
        asked = [{"prompt_token_ids": prompt} for prompt in prompts]
        answers = self._engine.generate(asked, sampling, use_tqdm=False)
        return {"outputs": [list(answer.outputs[0].token_ids) for answer in answers]}


if __name__ == "__main__":
    answer_lines(VllmArm())
