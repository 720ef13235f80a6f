"""Drafts of a step: sources of guessed tokens, and how many of them pay."""
