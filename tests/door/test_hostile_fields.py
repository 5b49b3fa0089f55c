"""Sixty hostile texts in every field of events and addresses: no page gets another element or attribute, and all are shown."""

import re
from collections.abc import Sequence
from itertools import product
from urllib.parse import quote

import orjson
import pytest
from followed_door import Writer, written
from hostile_story import filled
from hostile_texts import HOSTILE
from opened_door import Door, opened
from page_elements import parsed, region, structure

from builders import Told
from poweron_events import topics
from poweron_events.dead_letter import DeadLetter
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.door.page_rendering import visible
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(1_200)]

FIELDS = {
    *("prompt", "documentName", "mimeType", "objective", "actionObjective", "reason", "detail", "query", "error"),
    *("summary", "notes", "criterion", "message", "id", "provider", "model", "worker", "claim"),
}
"""Fields of senders, models, actions and documents that take any text."""


def harmless(text: str, number: int) -> str:
    """Return a text of the same length that no other field has."""
    return f"{number}".ljust(len(text), "x")[: max(len(text), len(str(number)))]


@pytest.mark.parametrize("stories", [4, pytest.param(60, marks=pytest.mark.soak)])
async def test_hostile_texts_change_no_page(
    door_settings: Settings, kafka: KafkaSettings, dsn: str, stories: int
) -> None:
    async with written(door_settings, kafka, dsn) as writer:
        pairs = list[tuple[Told, Told]]()
        for number in range(stories):
            texts = HOSTILE[number:] + HOSTILE[:number]
            told, twin, names = filled(
                f"hostile-{number}",
                lambda n, texts=texts: texts[n % 60],
                lambda n, texts=texts: harmless(texts[n % 60], n),
            )
            assert names >= FIELDS, FIELDS - names
            pairs.append((told, twin))
            for story in (told, twin):
                await writer.write(story)
        async with opened(door_settings, serving=False) as door:
            for told, twin in pairs:
                await expect_same_pages(door, told, twin)


async def expect_same_pages(door: Door, told: Told, twin: Told) -> None:
    for view in ("", "?failures=true", "?view=conversation", "/log"):
        page, same = [await parsed(door, f"/w/{story.id}{view}") for story in (told, twin)]
        assert structure(page) == structure(same), view
    for seq, value in enumerate(told.values):
        page, same = [await parsed(door, f"/w/{story.id}/at/{seq}") for story in (told, twin)]
        assert structure(page) == structure(same), orjson.loads(value)["type"]
        assert page.findtext(".//title") == same.findtext(".//title")
        assert region(page, "Record") == visible(value.decode(), 60_000)


ADDRESSES = ("/?q={}", "/permissions?actor={}", "/problems?q={}", "/operations/redriven?workflow=x&source={0}&id={0}")


@pytest.mark.parametrize("texts", [HOSTILE[::4], pytest.param(HOSTILE, marks=pytest.mark.soak)])
async def test_hostile_texts_in_addresses_change_no_page(
    door_settings: Settings, kafka: KafkaSettings, dsn: str, texts: Sequence[str]
) -> None:
    async with written(door_settings, kafka, dsn) as writer:
        await writer.write(Told())
    async with opened(door_settings, serving=False) as door:
        for path, text in product(ADDRESSES, texts):
            page, same = [
                await parsed(door, path.format(quote(part[:255], safe=""))) for part in (text, "x" * len(text))
            ]
            assert structure(page) == structure(same), (path, text)


async def test_hostile_texts_in_dead_letters_change_no_page(
    door_settings: Settings, kafka: KafkaSettings, dsn: str
) -> None:
    async with written(door_settings, kafka, dsn) as writer:
        await put_letters(writer)
        async with opened(door_settings, serving=False) as door:
            pages = [
                await parsed(door, f"/operations/deadletters/{topics.REQUESTS.name}/0/{offset}")
                for offset in range(2 * len(HOSTILE))
            ]
            for number, text in enumerate(HOSTILE):
                page, same = pages[2 * number : 2 * number + 2]
                assert [tag for tag, _ in structure(page)] == [tag for tag, _ in structure(same)], text
                shown = re.sub(r"\s+", "", page.text_content())
                assert re.sub(r"\s+", "", visible(text[:500].replace("\x00", "\ufffd"))) in shown, text


async def put_letters(writer: Writer) -> None:
    """Put a dead letter for each text, and one of as many harmless bytes after it."""
    letters = list[DeadLetter]()
    for text in HOSTILE:
        for part in (text, "x" * len(text)):
            raw = part.encode().ljust(len(text.encode()), b"x")
            given = {"topic": topics.REQUESTS.name, "partition": 0, "offset": len(letters), "size": len(raw)}
            letters.append(
                DeadLetter.model_validate(given | {"reason": part[:500], "raw": raw.hex()[: 4 * (len(raw) // 4)]})
            )
    await writer.connections.log.append(topics.DEAD_LETTERS.name, [letter.message() for letter in letters])
    await writer.write(Told())
