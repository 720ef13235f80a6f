"""Programs whose prompts and outputs are recorded text, spelled in the words of any model."""
