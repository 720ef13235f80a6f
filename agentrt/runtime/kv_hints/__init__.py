"""Hints to an engine's KV cache: retention over tool gaps, liveness of prefixes."""
