"""JSON Schema rewritten in terms that grammars support."""
