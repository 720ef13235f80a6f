"""Environment of processes that compute: what they need, and no secret of the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV"),
        *("TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "LD_PRELOAD", "CC", "CXX"),
    )
)
_PREFIXES = (
    *("LC_", "XDG_", "PYTHON", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "ONEDNN_", "DNNL_"),
    *("MALLOC_", "ATEN_", "TORCH", "PYTORCH_", "CUDA", "CUBLAS_", "NVIDIA_", "NCCL_", "HIP_"),
    *("TRITON_", "HF_", "TRANSFORMERS_", "TOKENIZERS_", "COVERAGE_", "AGENTRT_"),
)
_SECRET = re.compile(
    r"(^|_)((API)?KEYS?|TOKENS?|SECRETS?|PASS(WORD|WD)?|CREDENTIALS?|AUTH)(_|$)", re.IGNORECASE
)


def child_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process which computes may inherit.

    Example:
        >>> child_environment({"PATH": "/bin", "OMP_NUM_THREADS": "2", "HF_TOKEN": "x", "X": "y"})
        {'PATH': '/bin', 'OMP_NUM_THREADS': '2'}
    """
    return {
        name: value
        for name, value in inherited.items()
        if (name in _NAMES or name.startswith(_PREFIXES)) and not _SECRET.search(name)
    }
