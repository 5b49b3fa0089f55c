"""The child processes that read web pages, one page after another.

Nothing here imports the rest of PowerOn, except to drop privileges and to read documents. All other code uses
`poweron_services.connectors.page_reader`.
"""
