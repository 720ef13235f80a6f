"""A directory appears once it is whole, and nothing is overwritten."""

from __future__ import annotations

import json
import resource

import pytest
import torch
from safetensors.torch import load_file

from agentrt.base.errors import UsageError
from agentrt.engine.models.quantiser.checkpoint_writer import CheckpointWriter


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "LICENSE", "model.py"):
        (folder / name).write_text(name)
    for name in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"):
        (folder / name).write_text("weights")
    return folder


def test_the_tokenizer_comes_along_and_no_code_or_weights(tmp_path, source):
    target = tmp_path / "deep" / "target"
    with CheckpointWriter(target) as writer:
        writer.add("a", torch.ones(3, 2))
        assert not target.exists()
        writer.finish(source, {"model_type": "llama"})
    names = {path.name for path in target.iterdir()}
    copied = {"tokenizer.json", "chat_template.jinja", "LICENSE"}
    assert names == copied | {"config.json", "model.safetensors"}
    assert json.loads((target / "config.json").read_text()) == {"model_type": "llama"}
    modes = {path.stat().st_mode for path in target.iterdir()}
    assert len(modes) == 1, "weights can be read by whoever reads the rest"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_large_checkpoints_have_several_files_and_an_index(tmp_path, source):
    target = tmp_path / "target"
    tensors = {name: torch.full((4,), float(at)) for at, name in enumerate("abc")}
    with CheckpointWriter(target, shard_bytes=32) as writer:
        for name, tensor in tensors.items():
            writer.add(name, tensor)
        writer.finish(source, {})
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 48}
    first, last = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    assert index["weight_map"] == {"a": first, "b": first, "c": last}
    for name, file in index["weight_map"].items():
        assert torch.equal(load_file(target / file)[name], tensors[name])


def test_an_interrupted_one_leaves_nothing(tmp_path, source):
    def interrupted():
        with CheckpointWriter(tmp_path / "target") as writer:
            writer.add("a", torch.ones(2))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_what_a_killed_one_leaves_does_not_load(tmp_path, source):
    """Its folder has no config.json, which is written last."""
    writer = CheckpointWriter(tmp_path / "target", shard_bytes=1)
    writer.add("a", torch.ones(2))
    (left,) = (path for path in tmp_path.iterdir() if path != source)
    assert left.name.startswith(".target-")
    assert [path.suffix for path in left.iterdir()] == [".safetensors"]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_exists_is_refused(tmp_path, kind):
    target = tmp_path / "target"
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.write_text("")
    else:
        target.symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists"):
        CheckpointWriter(target)


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        CheckpointWriter(tmp_path / "file" / "target")


def test_a_disk_without_room_is_one_error_and_leaves_nothing(tmp_path, source):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with CheckpointWriter(tmp_path / "target", shard_bytes=1 << 30) as writer:
        writer.add("a", torch.ones(5000))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(UsageError, match=r"cannot be written: .*[Ff]ile too large"):
                writer.finish(source, {})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
