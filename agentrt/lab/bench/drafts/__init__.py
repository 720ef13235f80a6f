"""`agentrt bench drafts`: drafts of adaptive length beside none, over the same texts."""
