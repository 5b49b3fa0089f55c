"""MCP tool servers: which ones are configured, which of their tools are approved, and how tools are called."""
