"""The KV cache of the engine: allocator, block tables, tensors, hints, KV offload."""
