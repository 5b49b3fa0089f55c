"""How far long work is: what is said of it on its way, which is no part of the truth."""

from typing import Literal

ProgressUnit = Literal["documents_read", "pages_read", "parts_answered", "pages_fetched", "tool_steps"]
"""What is counted."""
