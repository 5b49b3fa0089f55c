"""The door for assistants: work is asked for, looked at and approved over the Model Context Protocol."""
