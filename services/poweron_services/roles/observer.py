"""The observer: the compact view of a result with which the loop continues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poweron_events.catalog import ActionSpec
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Workflow
from poweron_events.step_events import MAX_PREVIEWS
from poweron_events.stream import WorkflowEvent
from poweron_services.roles.observation_builder import observe_build, text_of


@dataclass(frozen=True, slots=True)
class Observer:
    """Read the first documents of the result from the content store, and build the observation."""

    content: ContentStore
    catalog: Mapping[str, ActionSpec]

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        completed = workflow.step.completed
        assert completed is not None
        documents = completed.documents[:MAX_PREVIEWS]
        texts = [await self._text(workflow.id, document) for document in documents]
        return [observe_build(workflow, completed, texts, self.catalog)]

    async def _text(self, workflow_id: str, document: DocumentRef) -> str:
        try:
            return text_of(document.mime_type, await self.content.get(workflow_id, document.content))
        except MissingContent:
            return ""
