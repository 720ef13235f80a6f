"""Structured output of remote engines: ways to ask for it, and checks of answers."""
