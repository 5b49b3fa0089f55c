"""What runs in the child process that reads one document: as few imports as possible, for a person waits for it.

Nothing here imports the rest of PowerOn, but for how rights are given up.
`poweron_services.connectors.document_reader` is the door for everybody else.
"""
