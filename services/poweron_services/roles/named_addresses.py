"""The addresses of the web that a workflow knows, in this round and in those before it; others are refused (S4)."""

from collections.abc import Mapping

from pydantic import JsonValue

from poweron_events.content import ContentStore
from poweron_events.fold.state import Workflow
from poweron_events.selection import ActionSelected
from poweron_services.decider.web_addresses import WEB, check_addresses, known_addresses, selected_texts, texts_of
from poweron_services.roles.named_documents import earlier_messages


async def addresses_known(workflow: Workflow, content: ContentStore) -> frozenset[str]:
    """The addresses that stand in the requests of the workflow, and those that its results gave.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    return known_addresses((*workflow.current.messages, *await earlier_messages(workflow, content)))


async def check_selected_addresses(selected: ActionSelected, workflow: Workflow, content: ContentStore) -> None:
    """Refuse the selection of an action of the web that names an address which nobody but the model has named.

    Raises:
        NotAllowed: says at which host.
        Unavailable: the content store cannot be reached.
    """
    if selected.action in WEB:
        check_addresses(selected_texts(selected), await addresses_known(workflow, content))


async def check_given_addresses(
    action: str, given: Mapping[str, JsonValue], workflow: Workflow, content: ContentStore
) -> None:
    """Likewise of the parameters of an action; raises alike."""
    if action in WEB:
        check_addresses(texts_of(dict(given)), await addresses_known(workflow, content))
