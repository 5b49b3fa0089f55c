"""Exports of the views of `bi` for users without a dashboard: files for analysis, and a page to share."""
