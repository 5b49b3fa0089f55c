"""Embeddings: vectors that are near each other if their texts mean the same."""
