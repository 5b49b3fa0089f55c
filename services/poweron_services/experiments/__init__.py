"""Commands that try PowerOn out as a whole: its speed, and what it survives; production code needs none of it."""
