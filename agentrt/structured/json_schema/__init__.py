"""JSON Schema rewritten into what grammars can hold."""
