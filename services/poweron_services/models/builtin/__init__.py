"""The built-in model: answers from documents without a language model, a key or a network."""

from poweron_services.models.builtin.model import BuiltinModel

__all__ = ["BuiltinModel"]
