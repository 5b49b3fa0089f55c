"""Trace export: a workflow of the log as one trace, for the viewers of traces that people already have."""
