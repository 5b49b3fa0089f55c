"""Sixty hostile texts in every field of events and addresses: no page gets another element or attribute, and all are shown."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import product
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest
from followed_door import Writer, written
from hostile_people import (
    ANSWERED,
    PeopleDoor,
    add_keys,
    answered,
    denied,
    harmless,
    people_door,
    policies,
    proposed,
    question,
)
from hostile_story import filled
from hostile_texts import HOSTILE
from opened_door import Door, opened
from page_door import chromium, watched
from page_elements import Element, parsed, region, structure
from servers import Pair

from builders import Told, requested
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
MOST_WAITING = 50  # of a page


def numbered(text: str, number: int) -> str:
    """Return a text of the same length that no other field has."""
    return f"{number}".ljust(len(text), "x")[: max(len(text), len(str(number)))]


@pytest.mark.parametrize("stories", [4, pytest.param(60, marks=pytest.mark.soak)])
async def test_hostile_texts_change_no_page(
    door_settings: Settings, kafka: KafkaSettings, dsn: str, stories: int
) -> None:
    async with written(door_settings, kafka, dsn) as writer:
        pairs, taken = list[tuple[Told, Told]](), Counter[str]()
        for number in range(stories):
            texts = HOSTILE[number:] + HOSTILE[:number]
            told, twin, names = filled(
                f"hostile-{number}",
                lambda n, texts=texts: texts[n % 60],
                lambda n, texts=texts: numbered(texts[n % 60], n),
            )
            taken.update(names)
            pairs.append((told, twin))
            for story in (told, twin):
                await writer.write(story)
        assert {
            name for name in FIELDS if taken[name] < 0.9 * stories
        } == set()  # a few take no text of 5,000 characters
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


WORKFLOW = Told().id
ADDRESSES = (
    *("/?q={}", "/?status={0}&phase={0}&code={0}", "/?action={0}&model={0}&actor={0}", "/?show={}"),
    *("/w/{}", "/w/{}/log", "/w/{}/at/0", f"/w/{WORKFLOW}/at/{{}}", f"/w/{WORKFLOW}/text/{{0}}?place={{0}}&mark={{0}}"),
    *(
        f"/w/{WORKFLOW}?view={{}}",
        f"/w/{WORKFLOW}?failures={{}}",
        f"/w/{WORKFLOW}/log?type={{0}}&verdict={{0}}",
        "/log?type={}",
    ),
    *("/approvals?show=all&outcome={0}&workflow={0}", "/approvals?show={}", "/compare?a={0}&b={0}"),
    f"/compare?a={WORKFLOW}&b={WORKFLOW}&only={{}}",
    *("/permissions?actor={}", "/permissions?at={0}&action={0}", "/policy/{}", "/costs?days={}"),
    *("/operations/processes/{}", "/operations/deadletters/{}/0/0", "/operations/deadletters?cursor={}"),
    "/operations/redriven?workflow={0}&source={0}&id={0}",
    *("/problems?q={}", "/problems/{}", "/login?next={}", "/login?next=/w/{}", "/nothing/{}"),
)


def same_parts(text: str) -> str:
    """Return the harmless text with as many parts of a path."""
    return "/".join(map(harmless, text.split("/")))


@pytest.mark.parametrize("texts", [HOSTILE[::12], pytest.param(HOSTILE, marks=pytest.mark.soak)])
async def test_hostile_texts_in_addresses_change_no_page(
    door_settings: Settings, kafka: KafkaSettings, dsn: str, texts: Sequence[str]
) -> None:
    async with written(door_settings, kafka, dsn) as writer:
        await writer.write(Told().tell(requested()))
    async with opened(door_settings, serving=False) as door:
        for path, text in product(ADDRESSES, texts):
            addresses = [path.format(quote(part, safe="")) for part in (text[:255], same_parts(text[:255]))]
            page, same = [await parsed(door, address) for address in addresses]
            expect_same(page, same, (path, text))


def expect_same(page: Element, same: Element, about: object) -> None:
    """Check that two pages have the same elements, and the same title but for the signs of the text."""
    assert structure(page) == structure(same), about
    titles = [harmless(each.findtext(".//title")) for each in (page, same)]
    assert titles[0] == titles[1], about


@pytest.mark.soak
@pytest.mark.parametrize("texts", [HOSTILE[::10], HOSTILE])
async def test_hostile_texts_of_people_change_no_page_and_make_it_ask_for_nothing(
    pair: Pair, tmp_path: Path, texts: Sequence[str]
) -> None:
    async with people_door(pair, tmp_path / "hostile") as hostile:
        shown = await pages_of_people(hostile, texts)
        paths = [path for path, _ in shown if "/at/" not in path]
        assert await asyncio.to_thread(problems_of, hostile.door.address, paths) == []
    async with people_door(pair, tmp_path / "harmless") as twin:
        same = await pages_of_people(twin, [harmless(text) for text in texts])
    for (path, page), (_, twin_page) in zip(shown, same, strict=True):
        expect_same(page, twin_page, path)


async def pages_of_people(place: PeopleDoor, texts: Sequence[str]) -> list[tuple[str, Element]]:
    """Write keys, policies, questions and answers with these texts; return the pages that show them, as they are then."""
    pages, writer = list[tuple[str, Element]](), place.writer

    async def look(*paths: str) -> None:
        pages.extend([(path, await parsed(place.door, path)) for path in paths])

    await add_keys(writer, texts)
    await writer.write(policies(texts))
    await look("/keys", "/policy", *(f"/policy/{number}" for number in range(1, len(texts) + 1)))
    await look(*(f"/permissions?actor={quote(text[:255], safe='')}" for text in texts))
    for first in range(0, len(texts), ANSWERED):
        batch = [*enumerate(texts)][first : first + ANSWERED]
        stories = [(number, text, question(number, text)) for number, text in batch]
        await look_at_approvals(look, writer, stories)
    answers = [await answered(writer, number, text) for number, text in enumerate(texts)]
    await writer.write_all(*answers)
    pairs = zip(answers, [*answers[1:], answers[0]], strict=True)
    await look("/compare", *(f"/compare?a={one.id}&b={other.id}" for one, other in pairs))
    further = enumerate(texts[:MOST_WAITING], start=len(texts))
    await writer.write_all(*(proposed(question(number, text), number, text) for number, text in further))
    await look("/approvals", "/approvals?show=all", "/approvals?show=overdue", "/", "/log", "/operations", "/costs")
    return pages


async def look_at_approvals(
    look: Callable[..., Awaitable[None]], writer: Writer, stories: Sequence[tuple[int, str, Told]]
) -> None:
    """Look at questions while they wait, once something else was proposed, and once they are answered."""
    await writer.write_all(*(told for _, _, told in stories))
    await look("/approvals?show=all")
    await writer.write_all(*(proposed(told, number, text) for number, text, told in stories))
    await look("/approvals?show=all")
    await writer.write_all(*(denied(told, text) for _, text, told in stories))
    await look("/approvals?show=all")
    for _, _, told in stories:
        base = f"/w/{told.id}"
        await look(base, f"{base}/log", f"{base}/at/3", *(f"{base}/at/{seq}" for seq in range(5, len(told.values))))


def problems_of(address: str, paths: Sequence[str]) -> list[str]:
    """Open pages in a browser; return errors, dialogs and requests to other hosts."""
    with chromium() as browser, watched(browser, address) as seen:
        for path in dict.fromkeys(paths):
            seen.page.goto(path)
        return seen.problems


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
