"""What runs in the child processes that read pages of the web, one page after the other.

Nothing here imports the rest of PowerOn, but for how rights are given up and how documents are read.
`poweron_services.connectors.page_reader` is the door for everybody else.
"""
