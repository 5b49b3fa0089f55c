"""Servers of tools that speak MCP: which there are, what is known of their tools, and how these are called."""
