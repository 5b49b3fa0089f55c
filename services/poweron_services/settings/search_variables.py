"""The settings of the search engine: `POWERON_SEARCH` in the environment, and keys in the engines' own variables."""

from urllib.parse import urlsplit

from pydantic import SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from poweron_services.settings.secret_settings import SecretSettings


class SearchVariables(BaseSettings):
    """The search engine to use."""

    search: str | None = None
    """`searxng:URL`, `tavily`, `brave` or `folder:PATH`; unset: the web is not searched."""

    @field_validator("search")
    @classmethod
    def _is_a_search_engine(cls, search: str | None) -> str | None:
        if search is not None and not _is_an_engine(search):  # not shown: an address may hold a password
            raise ValueError(
                "that is no search engine; write `tavily`, `brave`, `folder:PATH`, or `searxng:URL` with an address "
                "such as `http://localhost:8080`, without name, password and question"
            )
        return search


class SearchKeys(SecretSettings):
    """The credentials and addresses of search engines, in their usual variables."""

    model_config = SettingsConfigDict(env_ignore_empty=True, frozen=True, extra="ignore", str_strip_whitespace=True)

    tavily_api_key: SecretStr | None = None
    tavily_base_url: str = "https://api.tavily.com"
    brave_api_key: SecretStr | None = None
    brave_base_url: str = "https://api.search.brave.com"


def _is_an_engine(search: str) -> bool:
    engine, _, place = search.partition(":")
    if engine == "searxng":
        return _is_a_place(place)
    return search in {"tavily", "brave"} or (engine == "folder" and bool(place.strip()))


def _is_a_place(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        return False
    return usable and parts.username is None and parts.password is None and not parts.query and not parts.fragment
