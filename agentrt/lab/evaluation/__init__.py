"""Evaluations: cases with expected values, run under several configurations and compared."""
