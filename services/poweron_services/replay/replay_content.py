"""The content store of a replay: it only reads, and remembers which contents were missing."""

from collections.abc import Sequence

from poweron_events.content import ContentStore, commitment
from poweron_events.errors import MissingContent


class StoredContent(ContentStore):
    """Reads from another store; everything that is written is discarded."""

    def __init__(self, store: ContentStore) -> None:
        self._kept = store
        self._workflow_keys: dict[str, bytes | None] = {}
        self.missing: list[str] = []
        """The commitments that were requested but not found, since this list was last cleared."""

    async def put_all(self, workflow_id: str, contents: Sequence[bytes]) -> Sequence[str]:
        """Return the names under which the contents would be stored."""
        key = await self._key_of(workflow_id) or b""
        return [commitment(key, content) for content in contents]

    async def get(self, workflow_id: str, name: str) -> bytes:
        try:
            return await self._kept.get(workflow_id, name)
        except MissingContent:
            self.missing.append(name)
            raise

    async def size(self, workflow_id: str, name: str) -> int:
        try:
            return await self._kept.size(workflow_id, name)
        except MissingContent:
            self.missing.append(name)
            raise

    async def recall(self, *_: object) -> None:
        """Return nothing: no step runs that could reuse an earlier answer."""

    async def remember(self, *_: object) -> None:
        """Store nothing."""

    async def find(self, workflow_id: str, name: str | None) -> bytes | None:
        """Return the bytes of a commitment; None if they no longer exist."""
        if name is None:
            return None
        try:
            return await self._kept.get(workflow_id, name)
        except MissingContent:
            return None

    async def is_kept_as_said(self, workflow_id: str, name: str, content: bytes) -> bool:
        """Return whether the bytes match the event's commitment, or True if the key that it needs was erased."""
        key = await self._key_of(workflow_id)
        return key is None or commitment(key, content) == name

    async def _key_of(self, workflow_id: str) -> bytes | None:
        if workflow_id not in self._workflow_keys:
            try:
                self._workflow_keys[workflow_id] = await self._kept.read_path(f"{workflow_id}/key")
            except MissingContent:
                self._workflow_keys[workflow_id] = None
        return self._workflow_keys[workflow_id]
