"""The state of the content store, as `poweron status` shows it: whether it holds what recent events refer to."""

import asyncio
from typing import Final, Literal

from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError
from poweron_projections.connection import connect as connect_postgres
from poweron_services.cli.code_advice import advice_for
from poweron_services.cli.error_messages import sentence
from poweron_services.cli.problems import Problems
from poweron_services.client.content_check import ContentLost, expect_content

ContentState = Literal["reachable", "lost", "unavailable", "unknown"]

CHECK_TIMEOUT: Final = 10.0  # seconds


async def content_state(place: str, postgres: str, problems: Problems) -> ContentState:
    """Return the state of the content store at this place, and report any state but `reachable`."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            async with connect_postgres(postgres, connections=1, statement_cache_size=0) as pool:
                await expect_content(pool, ContentStore.at(place))
    except ContentLost as error:
        problems.report(f"{sentence(error)} {advice_for(error.code)}", error.code, style="bold red")
        return "lost"
    except PowerOnError as error:
        problems.report(f"{sentence(error)} {advice_for(error.code)}".rstrip(), error.code)
        return "unavailable" if error.code == "content_store_unavailable" else "unknown"
    except TimeoutError:
        problems.report(f"The content store did not answer within {CHECK_TIMEOUT:g} s.", "content_store_unavailable")
        return "unavailable"
    return "reachable"
