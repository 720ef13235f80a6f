"""Program bodies and tools: how they run, and how they start ahead of time."""
