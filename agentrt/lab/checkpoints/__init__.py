"""Checkpoints with random weights of named shapes, which engines and peers load alike."""
