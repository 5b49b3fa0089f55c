"""A service ends where the servers refuse what no time will change, and waits for what may pass."""

import asyncio
from dataclasses import replace

import pytest
from commands import Shell

from poweron_events.errors import Refused, Unavailable
from poweron_events.log.kafka_clients import reach
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services import standalone
from poweron_services.settings.config import Settings

pytestmark = pytest.mark.system


@pytest.mark.parametrize("of", ["database", "role", "password"])
async def test_a_service_ends_with_a_sentence_where_its_servers_refuse_it(of: str, shell: Shell) -> None:
    if of == "password":
        changed, said = {"POWERON_KAFKA_SASL_PASSWORD": "wrong"}, "it refuses the login of 'poweron' by SCRAM-SHA-256"
    else:
        dsn = shell.environment["POWERON_POSTGRES"]
        front, _, options = dsn.partition("?")
        user = f"postgresql://nobody_knows{front[front.index('@') :]}"
        database = f"{front.rpartition('/')[0]}/nobody_knows"
        changed = {"POWERON_POSTGRES": f"{user if of == 'role' else database}?{options}"}
        said = f'{of} "nobody_knows" does not exist'
    async with asyncio.timeout(30):
        served = await shell("serve", **changed)
    assert (served.code, served.out) == (1, "")
    assert said in served.err
    assert "Traceback" not in served.err


async def test_postgres_in_place_of_kafka_is_recognized(kafka: KafkaSettings) -> None:
    async def postgres(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read(8)
        writer.write(b"N" if asked == bytes.fromhex("0000000804d2162f") else b"")  # as Postgres answers it
        writer.close()

    async with await asyncio.start_server(postgres, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        with pytest.raises(Refused, match=r"that is the address of a Postgres server\. Check POWERON_KAFKA"):
            await reach(replace(kafka, bootstrap=f"{host}:{port}"), 5.0)


async def test_what_only_does_not_answer_is_not_refused(kafka: KafkaSettings) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        await reach(replace(kafka, bootstrap="127.0.0.1:1"), 5.0)


@pytest.mark.parametrize("where", ["kafka", "postgres"])
async def test_a_name_that_does_not_resolve_is_given_up_after_a_minute(
    where: str, kafka: KafkaSettings, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "RESOLVED_WITHIN", 0.5)
    monkeypatch.setattr(standalone, "RETRY_PERIOD", 0.2)
    monkeypatch.setattr(Settings, "named_kafka", property(lambda _: kafka))
    if where == "kafka":
        kafka, settings = replace(kafka, bootstrap="kafka.invalid:9092"), Settings(kafka="x", postgres=dsn)
    else:
        settings = Settings(kafka="x", postgres="postgresql://u@postgres.invalid/db")
    with pytest.raises(Refused, match=r"its name does not resolve\), and has not for 0\.5 s"):
        async with standalone.open_connections(settings, lambda _: None, wait=True):
            pytest.fail("nothing is open")
