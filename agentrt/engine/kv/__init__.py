"""The engine's KV cache: tensors, allocator, block tables, offload."""
