"""Compress the weights of a model for OpenVINO with NNCF, by the job on standard input.

Runs in OpenVINO's own environment. The job names `source`, a GGUF file in float16, `target`, a
folder, and `weights`: `int8`, a scale for each output, or `int4`, a scale for each 128 inputs, with
embedding and head in 8 bits. These are the forms that `optimum-cli export openvino` writes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import nncf
import openvino
import openvino_genai as genai

_GROUP = 128


def main() -> None:
    """Do one job."""
    job = json.load(sys.stdin)
    target = Path(job["target"])
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        source = Path(folder, Path(job["source"]).name)
        source.symlink_to(job["source"])
        genai.LLMPipeline(str(source), "CPU", enable_save_ov_model=True)
        for one in Path(folder).iterdir():
            if one != source and not one.name.startswith("openvino_model"):
                shutil.copy(one, target)
        model = openvino.Core().read_model(Path(folder, "openvino_model.xml"))
        compressed = nncf.compress_weights(model, **_options(job["weights"]))
        openvino.save_model(compressed, target / "openvino_model.xml", compress_to_fp16=True)


def _options(weights: str) -> dict[str, Any]:
    if weights == "int8":
        return {"mode": nncf.CompressWeightsMode.INT8_SYM}
    return {
        "mode": nncf.CompressWeightsMode.INT4_SYM,
        "group_size": _GROUP,
        "ratio": 1.0,
    }


if __name__ == "__main__":
    main()
