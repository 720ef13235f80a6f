"""Checkpoints in one GGUF file: their config, and their tensors by the names of Hugging Face."""
