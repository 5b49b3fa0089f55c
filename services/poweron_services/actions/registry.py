"""The registry: the actions that this release can run, one line each."""

from collections.abc import Mapping

from poweron_services.actions.action import Action
from poweron_services.actions.ai_process import AiProcess
from poweron_services.actions.document_extract import DocumentExtract
from poweron_services.actions.document_generate_report import DocumentGenerateReport


def actions() -> Mapping[str, Action]:
    """Every action by its name."""
    known: tuple[Action, ...] = (AiProcess(), DocumentExtract(), DocumentGenerateReport())
    return {action.spec.name: action for action in known}
