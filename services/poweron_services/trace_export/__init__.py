"""Trace export: a workflow from the log as one trace, for existing trace viewers."""
