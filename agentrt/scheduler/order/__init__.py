"""Order of nodes, requests and tool calls."""
