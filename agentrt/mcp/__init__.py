"""Tools of servers that speak the Model Context Protocol, as tools of agentrt.

The SDK of the protocol is an extra and takes half a second to import; it is imported when a server
is opened.
"""

from agentrt.mcp.server_tools import ServerTools, mcp_tools

__all__ = ["ServerTools", "mcp_tools"]
