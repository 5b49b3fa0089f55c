"""The code of the child process that reads one document; it imports as little as possible, because a user waits for it.

Nothing here imports the rest of PowerOn, except for dropping privileges.
Other code uses `poweron_services.connectors.document_reader` instead.
"""
