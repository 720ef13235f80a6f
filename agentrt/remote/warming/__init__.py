"""Warming ahead: the known beginning of a prompt is computed while the rest is awaited."""
