"""OpenVINO GenAI's continuous batching without a server, for one batch at a time.

Runs in OpenVINO's own environment and answers the questions of `engine_arm.py`.
"""

from __future__ import annotations

import time
from importlib.metadata import version

import numpy as np
import openvino
import openvino_genai as genai
from answering import Json, answer_lines
from openvino_pipeline import open_pipeline, unread_tokens


class OpenvinoArm:
    """One pipeline."""

    def open(self, settings: Json) -> Json:
        """Load the model."""
        self._pipeline = open_pipeline(**settings, lookup=False)
        return {"version": version("openvino-genai")}

    def round(
        self, prompts: list[list[int]], new_tokens: int, shared: int, ignore_eos: bool = True
    ) -> Json:
        """Compute one batch, step by step; a decode step gives one token to every sequence."""
        del shared  # it finds prefixes by itself
        config = genai.GenerationConfig()
        config.max_new_tokens = new_tokens
        config.ignore_eos = ignore_eos
        config.apply_chat_template = False
        inputs = [openvino.Tensor(np.array([prompt], dtype=np.int64)) for prompt in prompts]
        began_s = ended_s = prefilled_s = time.perf_counter()
        handles = [
            self._pipeline.add_request(number, one, config) for number, one in enumerate(inputs)
        ]
        outputs: list[list[int]] = [[] for _ in handles]
        decode_s, decode_steps = 0.0, 0
        while self._pipeline.has_non_finished_requests():
            decoding = all(outputs)
            self._pipeline.step()
            new = [unread_tokens(handle) for handle in handles]
            for output, tokens in zip(outputs, new, strict=True):
                output += tokens
            stepped_s = time.perf_counter()
            if not decoding:
                prefilled_s = stepped_s
            elif all(len(tokens) == 1 for tokens in new):
                decode_s += stepped_s - ended_s
                decode_steps += 1
            ended_s = stepped_s
        return {
            "prefill_s": prefilled_s - began_s,
            "decode_s": decode_s,
            "decode_steps": decode_steps,
            "outputs": outputs,
        }


if __name__ == "__main__":
    answer_lines(OpenvinoArm())
