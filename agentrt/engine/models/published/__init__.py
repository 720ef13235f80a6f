"""Quantised checkpoints as other software publishes them: matrices in several tensors each."""
