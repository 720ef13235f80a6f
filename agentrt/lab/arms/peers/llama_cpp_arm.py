"""llama.cpp as a peer: one `llama_decode` a step for all sequences, through its own C interface.

Runs in the peers' environment and answers the questions of `engine_arm.py`.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any

import llama_cpp
import numpy as np
from answering import Json, answer_lines

PROMPT_BATCH_TOKENS = 2048


class LlamaCppArm:
    """One model in one context."""

    def open(self, settings: Json) -> Json:
        """Load the model."""
        llama_cpp.llama_log_set(_SILENT, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self._model = llama_cpp.llama_model_load_from_file(settings["model"].encode(), model_params)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {settings['model']}")
        vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._vocabulary = llama_cpp.llama_vocab_n_tokens(vocab)
        self._context = self._new_context(settings)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch = batch = llama_cpp.llama_batch_init(PROMPT_BATCH_TOKENS, 0, 1)
        size = (PROMPT_BATCH_TOKENS,)
        self._tokens = np.ctypeslib.as_array(batch.token, size)
        self._positions = np.ctypeslib.as_array(batch.pos, size)
        self._wanted = np.ctypeslib.as_array(batch.logits, size)
        np.ctypeslib.as_array(batch.n_seq_id, size)[:] = 1
        self._sequences = np.full(size, -1)
        return {"version": llama_cpp.__version__}

    def round(
        self, prompts: list[list[int]], new_tokens: int, shared: int, ignore_eos: bool = True
    ) -> Json:
        """Compute all prompts, then decode them together; no output ends by itself."""
        llama_cpp.llama_memory_clear(self._memory, False)
        began_s = time.perf_counter()
        if shared:
            self._prompts([prompts[0][:shared]], 0, wanted=False)
            for sequence in range(1, len(prompts)):
                llama_cpp.llama_memory_seq_cp(self._memory, 0, sequence, -1, -1)
        last = self._prompts([prompt[shared:] for prompt in prompts], shared, wanted=True)
        prefilled_s = time.perf_counter()
        outputs = [[token] for token in last]
        position = len(prompts[0])
        for step in range(new_tokens - 1):
            rows = [(token, position + step, at, True) for at, token in enumerate(last)]
            for output, token in zip(outputs, self._decode(rows), strict=True):
                output.append(token)
            last = [output[-1] for output in outputs]
        return {
            "prefill_s": prefilled_s - began_s,
            "decode_s": time.perf_counter() - prefilled_s,
            "decode_steps": new_tokens - 1,
            "outputs": outputs,
            "cached_tokens": shared * (len(prompts) - 1),
        }

    def _new_context(self, settings: dict[str, Any]) -> Any:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = settings["context_tokens"]
        params.n_batch = PROMPT_BATCH_TOKENS
        params.n_seq_max = settings["batch"]
        params.n_threads = settings["threads"]
        params.n_threads_batch = settings["threads"]
        params.kv_unified = settings["unified"]
        params.no_perf = True
        if settings["dtype"] == "float32":
            params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
        context = llama_cpp.llama_init_from_model(self._model, params)
        if not context:
            raise RuntimeError("llama.cpp cannot open a context")
        return context

    def _prompts(self, parts: list[list[int]], first: int, *, wanted: bool) -> list[int]:
        """Compute the parts, packed into batches; the first token of each if wanted."""
        rows = [
            (token, first + at, sequence, wanted and at == len(part) - 1)
            for sequence, part in enumerate(parts)
            for at, token in enumerate(part)
        ]
        tokens: list[int] = []
        for begin in range(0, len(rows), PROMPT_BATCH_TOKENS):
            tokens += self._decode(rows[begin : begin + PROMPT_BATCH_TOKENS])
        return tokens

    def _decode(self, rows: list[tuple[int, int, int, bool]]) -> list[int]:
        """One call; the likeliest token of each row that wants one."""
        count = len(rows)
        table = np.array(rows, dtype=np.int64)
        self._tokens[:count] = table[:, 0]
        self._positions[:count] = table[:, 1]
        self._wanted[:count] = table[:, 3]
        for at in np.flatnonzero(self._sequences[:count] != table[:, 2]):  # mostly none
            self._batch.seq_id[int(at)][0] = int(table[at, 2])
        self._sequences[:count] = table[:, 2]
        self._batch.n_tokens = count
        code = llama_cpp.llama_decode(self._context, self._batch)
        if code != 0:
            raise RuntimeError(f"llama_decode returned {code}")
        return [self._likeliest(at) for at, row in enumerate(rows) if row[3]]

    def _likeliest(self, at: int) -> int:
        logits = llama_cpp.llama_get_logits_ith(self._context, at)
        return int(np.argmax(np.ctypeslib.as_array(logits, (self._vocabulary,))))


@llama_cpp.llama_log_callback
def _SILENT(level: int, text: bytes, user_data: Any) -> None:
    """Takes llama.cpp's messages; only its errors are passed on."""
    if level >= 4 and level != 5:
        sys.stderr.write(text.decode("utf-8", "replace"))


if __name__ == "__main__":
    answer_lines(LlamaCppArm())
