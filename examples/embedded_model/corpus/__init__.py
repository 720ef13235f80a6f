"""Synthetic transcripts of the programs: what the runtime would send, and what the model should answer."""
