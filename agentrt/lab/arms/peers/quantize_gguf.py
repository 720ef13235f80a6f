"""Quantise a GGUF file with llama.cpp's own code, by the job on standard input.

Runs in the peers' environment. The job names `source`, `target` and `weights`.
"""

from __future__ import annotations

import ctypes
import json
import sys

import llama_cpp

_TYPES = {
    "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "q4_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
}


def main() -> None:
    """Do one job."""
    job = json.load(sys.stdin)
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = _TYPES[job["weights"]]
    source, target = job["source"].encode(), job["target"].encode()
    code = llama_cpp.llama_model_quantize(source, target, ctypes.byref(params))
    if code != 0:
        raise RuntimeError(f"llama.cpp cannot quantise {job['source']}: {code}")


if __name__ == "__main__":
    main()
