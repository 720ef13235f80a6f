"""OpenVINO GenAI's continuous batching without a server, for one batch at a time.

Runs in OpenVINO's own environment and answers the questions of `engine_arm.py`.
"""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import openvino
import openvino_genai as genai
from answering import Json, answer_lines
from openvino_pipeline import open_pipeline


class OpenvinoArm:
    """One pipeline."""

    def open(self, settings: Json) -> Json:
        """Load the model."""
        self._pipeline = open_pipeline(**settings, lookup=False)
        return {"version": version("openvino-genai")}

    def round(
        self, prompts: list[list[int]], new_tokens: int, shared: int, ignore_eos: bool = True
    ) -> Json:
        """Compute one batch."""
        del shared  # it finds prefixes by itself
        config = genai.GenerationConfig()
        config.max_new_tokens = new_tokens
        config.ignore_eos = ignore_eos
        config.apply_chat_template = False
        inputs = [openvino.Tensor(np.array([prompt], dtype=np.int64)) for prompt in prompts]
        answers = self._pipeline.generate(inputs, [config] * len(inputs))
        return {"outputs": [list(answer.m_generation_ids[0]) for answer in answers]}


if __name__ == "__main__":
    answer_lines(OpenvinoArm())
