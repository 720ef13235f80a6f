"""The engine in a process of its own: main, channel, messages, watchdog."""
