"""Language models of providers, over pydantic-ai's direct requests: one call is one request.

Importing this takes more than a second, so only a process that uses such a model does.
"""

from poweron_services.models.providers.provider_model import ProviderModel

__all__ = ["ProviderModel"]
