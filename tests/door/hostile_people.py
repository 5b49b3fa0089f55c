"""Keys, policies, approvals and answers of models whose texts are hostile, written into the log and the rows of a door."""

import re
import string
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from followed_door import Writer, written
from opened_door import Door, opened, own_database
from servers import Pair

from builders import CALL, PARAMETERS, At, Policies, Told, completed, document, identity, planned, requested
from poweron_events.actor import Actor
from poweron_events.fold.policy_chain import policy_sha256
from poweron_events.fold.state import parameters_sha256
from poweron_events.policy import Escalation, Group, Policy, Rule, SourceQuota
from poweron_events.request import PolicyApplied
from poweron_projections import access_keys
from poweron_projections.verify import catch_up
from poweron_services.settings.config import Settings

DAY = 86_400_000  # ms
LONG = 2_000  # characters of a plan
ANSWERED = 10  # answers that the page of approvals shows
_WIDE = {ord(sign): ord(sign) + 0xFEE0 for sign in string.punctuation if sign != "_"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def harmless(text: str) -> str:
    """Return the text with the wide form of each sign: of the same words, lines and length, but no markup."""
    return text.translate(_WIDE)


@dataclass(frozen=True)
class PeopleDoor:
    """A door that plays no roles, and what writes into its log and its rows."""

    door: Door
    writer: Writer


@asynccontextmanager
async def people_door(pair: Pair, home: Path) -> AsyncGenerator[PeopleDoor, None]:
    """A door with topics and a database of its own."""
    async with own_database(pair) as (name, postgres):
        kafka = replace(pair.kafka, prefix=f"{name}.")
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in kafka.environment().items():
                patch.setenv(variable, value)
            settings = Settings(home=home, postgres=postgres)
            async with written(settings, kafka, postgres) as writer:
                await catch_up(writer.connections.log, writer.connections.pool)
                async with opened(settings, serving=False) as door:
                    yield PeopleDoor(door, writer)


def line(text: str, length: int = 255) -> str:
    """Return the text as a policy, a key or an actor can hold it."""
    return _CONTROL.sub(" ", text)[:length].strip()


async def add_keys(writer: Writer, texts: Sequence[str]) -> None:
    """Add a key of each text; every third one is revoked. Names with such texts come around the command line only."""
    pool = writer.connections.pool
    for number, text in enumerate(texts):
        short, name = line(text), f"key-{number}"
        holder = Actor(id=short, roles=(line(text, 100), "clerk"), via="http", verified=True)
        await access_keys.add_key(pool, name, holder, scopes=("read",), life_ms=DAY, created_by=short)
        if number % 3 == 0:
            await access_keys.revoke_key(pool, name, revoked_by=short)
    async with access_keys.acquire(pool) as connection:
        schema = access_keys.schema_beside(await access_keys.schema_of(connection))
        for number, text in enumerate(texts):
            order = 1_795_000_000_000 + number  # the page lists the newest first
            await connection.execute(
                f"UPDATE {schema}.keys SET name = $1, created_ms = $2 WHERE name = $3",
                line(text),
                order,
                f"key-{number}",
            )


def policy_of(text: str) -> Policy:
    members = ("ada", "bob", line(text))
    return Policy(
        name=line(text, 100),
        apply=("admins",),
        groups={
            "admins": Group(members=("carla", line(text)), roles=(line(text, 100),)),
            "risk": Group(members=members, roles=(line(text, 100),)),
            "heads": Group(members=(line(text),)),
        },
        rules=(
            Rule(
                actions=("document.extract",),
                decision="approve",
                approvers=3,
                from_=("risk",),
                expires="1d",
                escalate=Escalation(after="1h", to=("heads",)),
            ),
        ),
        otherwise="allow",
        per_source=(SourceQuota(sources=(line(text),), starts_per_day=5),),
    )


def policies(texts: Sequence[str]) -> Told:
    """Return the story of a policy for each text; its actor is the one of the text before."""
    told, previous = Policies(), None
    for number, text in enumerate(texts, start=1):
        policy, actor = policy_of(text), line(texts[max(0, number - 2)])
        sha256 = policy_sha256(policy)
        told.tell(
            PolicyApplied(
                number=number,
                policy=policy,
                sha256=sha256,
                previous=previous,
                reason=text,
                actor=Actor(id=actor, via="cli"),
                request=identity(f"policy-{number}"),
            )
        )
        previous = sha256
    assert set(told.verdicts) == {"accepted"}
    return told


def question(number: int, text: str) -> Told:
    """Return the story of a step that waits for a third approval of parameters that someone proposed."""
    policy, at = policy_of(text), At()
    asker, told = Actor(id=line(text), via="cli"), Told(f"question-{number}")
    told.tell(
        requested(
            f"question-{number}",
            prompt=text,
            documents=(document(line(text), document_id="d1"),),
            policy=policy.terms(1, policy_sha256(policy)),
            laws=3,
            actor=asker,
        ),
        planned(objective=text[:LONG]),
        at.selected(action_objective=text[:LONG]),
        at.parameters(parameters={**PARAMETERS, text: [text, {text: text}]}),
    )
    return told.tell(at.approval_requested(parameters_sha256=parameters_sha256(told.workflow), expires_ms=DAY))


def proposed(told: Told, number: int, text: str) -> Told:
    """Tell that someone proposes other parameters and someone else approves them; of every second one, an escalation."""
    at, actor = At(), Actor(id=line(text), via="cli")
    told.tell(
        at.parameters_changed(
            parameters_sha256=parameters_sha256(told.workflow),
            parameters={**PARAMETERS, text: text},
            reason=text,
            actor=Actor(id="bob", via="cli"),
        )
    )
    told.tell(at.approval_granted(parameters_sha256=parameters_sha256(told.workflow), reason=text, actor=actor))
    if number % 2:
        told.tell(at.escalated(parameters_sha256=parameters_sha256(told.workflow)))
    return told


def denied(told: Told, text: str) -> Told:
    actor = Actor(id=line(text), via="cli")
    return told.tell(
        At().approval_denied("deny", parameters_sha256=parameters_sha256(told.workflow), reason=text, actor=actor)
    )


async def answered(writer: Writer, number: int, text: str) -> Told:
    """Return the story of a model that was asked with the text, set it as a parameter and answered it."""
    name, at = f"answered-{number}", At()
    told = Told(name)
    prompt, answer = await writer.connections.content.put_all(told.id, [f"Say:\n{text}".encode(), text.encode()])
    call = CALL.model_copy(update={"prompt_ref": prompt, "answer_ref": answer})
    told.tell(
        requested(name, prompt=text),
        planned(objective=text[:LONG]),
        at.selected(action_objective=text[:LONG]),
        at.parameters(parameters={"query": text, f"q{number}": text}, model_call=call),
        at.started(),
        at.done(success=False, outcome="failed", documents=(), error=text[:LONG]),
        at.observed(),
        at.refined(reason=text[:LONG]),
        at.reviewed(reason=text[:LONG]),
        completed(message=text),
    )
    return told
