"""`agentrt bench` and `agentrt sim`."""
