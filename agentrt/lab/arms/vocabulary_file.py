"""A vocabulary as a file, so that all arms of the structured bench read the same one."""

from __future__ import annotations

import json
from pathlib import Path

from agentrt.base.atomic_write import write_atomically
from agentrt.base.vocabulary import Vocab
from agentrt.lab.checkpoints.checkpoint import bench_folder


def vocabulary_file(vocab: Vocab) -> Path:
    """Path of the file; written if it is not there."""
    path = bench_folder() / f"vocabulary-{vocab.fingerprint[:16]}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "tokens": [token.hex() for token in vocab.token_bytes],
            "special_ids": vocab.special_ids,
            "eos_ids": list(vocab.eos_ids),
            "tokenizer_json": vocab.tokenizer_json,
            "logits_size": vocab.logits_size,
            "fingerprint": vocab.fingerprint,
        }
        write_atomically(path, json.dumps(content).encode())
    return path


def vocabulary_from(path: Path) -> Vocab:
    """Read the vocabulary of such a file."""
    content = json.loads(path.read_text("utf-8"))
    tokens = tuple(bytes.fromhex(token) for token in content.pop("tokens"))
    return Vocab(token_bytes=tokens, eos_ids=tuple(content.pop("eos_ids")), **content)
