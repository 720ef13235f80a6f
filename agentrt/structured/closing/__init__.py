"""The shortest valid end of an output."""
