"""Write the settings file of the embedded broker, and read values back from it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from poweron_services.embedded import kafka_password

MESSAGE_BYTES: Final = 1_100_000

# A killed broker can rejoin only after its session has expired, hence the short session timeout.
_SETTINGS: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=BROKER://127.0.0.1:{broker}
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
listener.security.protocol.map=BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
log.dirs={data}
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
auto.create.topics.enable=false
default.replication.factor=1
message.max.bytes={message_bytes}
group.initial.rebalance.delay.ms=0
group.coordinator.append.linger.ms=0
group.min.session.timeout.ms=1000
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
EACH_RECORD_TO_DISK: Final = "log.flush.interval.messages=1\n"

# The broker's users are stored in its metadata. The users of the controller, which holds that metadata, are set here.
# A failed login is reported without delay: our first one may fail, and such passwords cannot be guessed anyway.
_LOGINS: Final = """\
connection.failed.authentication.delay.ms=0
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256
sasl.mechanism.controller.protocol=PLAIN
listener.name.broker.sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.broker.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
username="{user}" password="{password}";
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="{user}" password="{own_password}" user_{user}="{own_password}";
"""

_PORTS: Final = re.compile(r"^listeners=BROKER://127\.0\.0\.1:(\d+),CONTROLLER://127\.0\.0\.1:(\d+)", re.MULTILINE)
_OWN_PASSWORD: Final = re.compile(rf'^listener\.name\.controller\..* user_{kafka_password.USER}="(.+)";$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Configured:
    """The settings of the last start. A broker without its own password, as before 0.3, accepts all clients."""

    broker: int
    controller: int
    own_password: str | None


def configuration(data: str, *, broker: int, controller: int, password: str, fsync: bool) -> str:
    """Return the text of the file, with these ports, this client password and a new password for the broker itself."""
    settings = _SETTINGS.format(data=data, broker=broker, controller=controller, message_bytes=MESSAGE_BYTES)
    logins = _LOGINS.format(user=kafka_password.USER, password=password, own_password=kafka_password.fresh())
    return settings + logins + (EACH_RECORD_TO_DISK if fsync else "")


def configured(path: Path) -> Configured | None:
    """Read the file; return None if it is missing or names no ports."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return None
    ports, password = _PORTS.search(text), _OWN_PASSWORD.search(text)
    return Configured(int(ports[1]), int(ports[2]), password[1] if password else None) if ports else None
