"""Quantisation of a checkpoint ahead of time: rounding, AWQ and GPTQ, and the files they make."""
