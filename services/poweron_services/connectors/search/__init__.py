"""Search engines of the web, behind one port."""
