"""Brokers that tests set up in their own way: with TLS, users and ACLs, or as deploy/compose.yaml does."""

import asyncio
import datetime as dt
import ipaddress
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import yaml
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from poweron_events.errors import Unavailable
from poweron_events.log.kafka_clients import reach
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.embedded.kafka_server import Kafka, free_port
from poweron_services.embedded.server_process import Program, Running, run, written_pid

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
SECRET = "a-long-random-word"
USERS = (
    *("admin", "upstream", "client", "intake", "deciders", "executor"),
    *("intake-alone", "projector", "ledger", "auditor"),
)

SECURED = """\
listeners=BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller},{listeners}
advertised.listeners=BROKER://127.0.0.1:{broker},{listeners}
listener.security.protocol.map=BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain}
listener.name.sasl_ssl.plain.sasl.jaas.config={plain}
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={scram}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}
ssl.keystore.type=PEM
ssl.keystore.location={tls}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={tls}/ca.pem
listener.name.ssl.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:poweron;User:poweron-admin
"""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    f'user_poweron-{name}="{SECRET}"' for name in USERS
)
CLUSTERED = """\
node.id={number}
controller.quorum.voters={voters}
default.replication.factor={replicas}
min.insync.replicas=2
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=2
"""
LOGIN = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";
"""
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def free_ports(*names: str) -> dict[str, int]:
    return {name: free_port() for name in names}


@dataclass(frozen=True)
class SecuredKafka(Kafka):
    """A broker that lets in only who proves who he is, in every way that our settings know."""

    ports: dict[str, int] = field(default_factory=lambda: free_ports("SASL_SSL", "SASL_PLAINTEXT", "SSL"))

    @property
    def tls(self) -> Path:
        return self.folders.home / "tls"

    def address(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports[protocol]}"

    def _configuration(self, data: str, *, broker: int, controller: int, password: str = "") -> str:
        own = Kafka._configuration(self, data, broker=broker, controller=controller, password=password)
        listeners = ",".join(f"{protocol}://{self.address(protocol)}" for protocol in self.ports)
        return own + SECURED.format(
            broker=broker,
            controller=controller,
            listeners=listeners,
            plain=PLAIN + ";",
            scram=SCRAM + ";",
            tls=self.tls,
        )

    async def add_scram_user(self, name: str, mechanism: str) -> None:
        what = ["--add-config", f"{mechanism}=[password={SECRET}]", "--entity-type", "users", "--entity-name", name]
        kafka = self.client_settings
        login = self.folders.kafka / "login.properties"
        login.write_text(LOGIN.format(user=kafka.sasl_username, password=kafka.sasl_password))
        there = ["--bootstrap-server", kafka.bootstrap, "--command-config", str(login)]
        await run([*self._java(), "kafka.admin.ConfigCommand", *there, "--alter", *what], folder=login.parent, env={})


@dataclass(frozen=True)
class OpenKafka(Kafka):
    """A broker that lets everybody in."""

    @property
    def let_in(self) -> KafkaSettings:
        return KafkaSettings(f"127.0.0.1:{self._remembered_port()}")

    def answers(self) -> bool:
        try:
            asyncio.run(reach(self.let_in, 5.0))
        except Unavailable:
            return False
        return True

    _answers_or_learns = answers


@dataclass(frozen=True)
class OlderKafka(OpenKafka):
    """The broker as release 0.2 started it."""

    async def start(self, progress: Callable[[str], None]) -> None:
        await OpenKafka.start(self, progress)
        self.folders.kafka_password.unlink()
        self._properties.chmod(0o644)

    def _configuration(self, data: str, *, broker: int, controller: int, password: str = "") -> str:
        return _open(Kafka._configuration(self, data, broker=broker, controller=controller))


def _open(configuration: str) -> str:
    """The same without logins."""
    plain = configuration.replace("SASL_PLAINTEXT", "PLAINTEXT")
    return re.sub(r"^(sasl|listener\.name)\..*\n", "", plain, flags=re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ClusteredKafka(OpenKafka):
    """One of several brokers, each with a controller beside it, that let everybody in."""

    number: int
    brokers: Sequence[int]
    controllers: Sequence[int]

    @property
    def cluster(self) -> KafkaSettings:
        return KafkaSettings(",".join(f"127.0.0.1:{port}" for port in self.brokers))

    def _configuration(self, data: str, *, broker: int, controller: int, password: str = "") -> str:
        ports = {"broker": self.brokers[self.number - 1], "controller": self.controllers[self.number - 1]}
        voters = (f"{number}@127.0.0.1:{port}" for number, port in enumerate(self.controllers, start=1))
        return _open(Kafka._configuration(self, data, **ports)) + CLUSTERED.format(
            number=self.number, voters=",".join(voters), replicas=len(self.brokers)
        )


@dataclass(frozen=True)
class ComposedKafka(Kafka):
    """The broker of deploy/compose.yaml, started by its own script, but for its addresses and its folders."""

    port: int = field(default_factory=free_port)

    @property
    def client_settings(self) -> KafkaSettings:
        login = ("SASL_PLAINTEXT", "SCRAM-SHA-512", "poweron", SECRET)
        return KafkaSettings(f"127.0.0.1:{self.port}", *login)

    def answers(self) -> bool:
        try:
            asyncio.run(reach(self.client_settings, 5.0))
        except Unavailable:
            return False
        return True

    _answers_or_learns = answers

    async def _format_once(self) -> None:
        """Leave that to the script, and put where it looks what it calls in the image of Kafka."""
        (self.folders.kafka / "kafka_password").write_text(f"{SECRET}\n")
        programs = self.folders.kafka / "bin"
        programs.mkdir(exist_ok=True)
        (self.folders.kafka / "run").mkdir(exist_ok=True)
        for script, tool in {"kafka-storage": "kafka.tools.StorageTool", "kafka-server-start": "kafka.Kafka"}.items():
            path = programs / f"{script}.sh"
            path.write_text(f'#!/bin/sh\nexec {shlex.join([*self._java(), tool])} "$@"\n')
            path.chmod(0o700)

    def _broker_command(self) -> list[str]:
        folder = self.folders.kafka
        environment = {
            "CLUSTER_ID": COMPOSE["kafka"]["environment"]["CLUSTER_ID"],
            "KAFKA_HOME": str(folder),
            "KAFKA_PASSWORD_FILE": str(folder / "kafka_password"),
            "KAFKA_PROPERTIES": str(self._properties),
            "KAFKA_RUN_FOLDER": str(folder / "run"),
        }
        return [
            "env",
            *(f"{name}={value}" for name, value in environment.items()),
            "bash",
            str(DEPLOY / "kafka/start.sh"),
        ]

    def find(self) -> Running | None:
        return Program("java", str(self.folders.kafka / "run/server.properties")).find(written_pid(self._pid))

    def _remembered_port(self) -> int:
        return self.port

    def _configuration(self, data: str, *, broker: int, controller: int, password: str = "") -> str:
        theirs = (DEPLOY / "kafka/server.properties").read_text()
        moved = {
            ":9092": f":{broker}",
            ":9093": f":{controller}",
            "//kafka:": "//127.0.0.1:",
            "BROKER://:": "BROKER://127.0.0.1:",
            "/var/lib/kafka/data": data,
        }
        for name, value in moved.items():
            assert name in theirs
            theirs = theirs.replace(name, value)
        return theirs


# --- certificates -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Authority:
    """Signs certificates for the brokers and clients of a test."""

    folder: Path
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def issue_all(self) -> None:
        """`ca.pem`, and certificates with their keys for the broker and for a client."""
        self.folder.mkdir(parents=True)
        authority = self._sign("PowerOn tests", self.key, authority=True)
        (self.folder / "ca.pem").write_bytes(authority)
        for name in ("broker", "poweron-admin"):
            key = ec.generate_private_key(ec.SECP256R1())
            written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            certificate = self._sign(name, key, authority=False)
            (self.folder / f"{name}.pem").write_bytes(written + certificate)
            (self.folder / f"{name}.key").write_bytes(written)

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> bytes:
        today = dt.datetime.now(dt.UTC)
        usage = x509.KeyUsage(
            **dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False),
            **dict.fromkeys(("encipher_only", "decipher_only"), False),
            **dict.fromkeys(("key_cert_sign", "crl_sign"), authority),
            digital_signature=True,
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named("PowerOn tests"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - dt.timedelta(days=1))
            .not_valid_after(today + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
        )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


# --- ACLs -------------------------------------------------------------------------------------------------

RESOURCES = {"--topic": 2, "--group": 3}
PATTERNS = {"literal": 3, "prefixed": 4}
OPERATIONS = {"Read": 3, "Write": 4, "Describe": 8, "DescribeConfigs": 10}
ALLOW = 3


Acl = tuple[int, str, int, str, str, int, int]


def acls(command: str) -> Iterator[Acl]:
    """The ACLs that a `kafka-acls.sh --add` command grants."""
    words = shlex.split(command)
    options = list(pairwise(words))

    def given(name: str) -> list[str]:
        return [value for option, value in options if option == name]

    (resource,) = [option for option in RESOURCES if option in words]
    pattern = PATTERNS[(given("--resource-pattern-type") or ["literal"])[0]]
    for principal in given("--allow-principal"):
        for operation in given("--operation"):
            for name in given(resource):
                yield RESOURCES[resource], name, pattern, principal, "*", OPERATIONS[operation], ALLOW


def words(acl: Acl) -> tuple[str, str, str, str]:
    """Who may do what to what, as the command has it."""
    kind, name, _, principal, _, operation, _ = acl
    (resource,) = [option for option, number in RESOURCES.items() if number == kind]
    (verb,) = [verb for verb, number in OPERATIONS.items() if number == operation]
    return principal, verb, resource, name


async def grant(admin: AIOKafkaAdminClient, commands: list[str]) -> None:
    """What `kafka-acls.sh` would do."""
    for command in commands:
        for acl in acls(command):
            response = await admin._send_to_controller(CreateAclsRequest(*acl))
            assert [answer[0] for answer in response.creation_responses] == [0], response
