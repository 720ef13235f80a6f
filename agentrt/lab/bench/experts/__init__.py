"""`agentrt bench experts`: decode steps of a mixture of experts, beside those of transformers."""
