"""The door over HTTP: commands and queries as an API, events as streams, and pages for people.

It uses `client` and `reader`, as the command line does; nothing below it knows it.
"""
