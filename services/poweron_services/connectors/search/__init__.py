"""Web search engines behind one interface."""
