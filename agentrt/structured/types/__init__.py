"""From a Python type to its JSON Schema and back to a value."""
