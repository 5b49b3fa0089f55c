"""The server for assistants: they request work, check on it and pass on approvals over the Model Context Protocol."""
