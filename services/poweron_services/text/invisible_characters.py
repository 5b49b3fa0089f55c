"""Characters that act on a terminal or on the direction of a text, or are invisible, so that they can hide text."""

import re
from typing import Final

INVISIBLE: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # control characters, line separators, lone surrogates
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f"  # direction marks and zero-width characters
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # the last are tags, which can hide text
    "]"
)
"""Control characters, and Default_Ignorable_Code_Point of
Unicode 16 except the variation selectors of emoji."""
