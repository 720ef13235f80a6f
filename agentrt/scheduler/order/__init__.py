"""The order in which nodes, requests and tool calls are served."""
