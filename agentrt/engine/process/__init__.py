"""The engine in a process of its own: backend, channel, messages, signs of life."""
