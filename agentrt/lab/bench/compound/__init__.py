"""Compound latency: whole programs, played by our runtime and by clients of peers."""
