"""The audit ledger: an entry for each record of the log in a Merkle tree whose root is signed.

A verified ledger proves that the stored history was not altered after a checkpoint; it does not prove that what a
service reported is true, nor that nothing was left out at the source.
"""
