"""What `deploy/` promises, as far as it can be checked without Docker."""

import re
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from pydantic_settings import BaseSettings

from poweron_services.cli.main import app
from poweron_services.settings.config import Settings
from poweron_services.settings.secret_settings import setting_variables
from poweron_services.wiring import ROLES

HOUSE = Path(__file__).parent.parent
DEPLOY = HOUSE / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
EXAMPLE = (DEPLOY / "poweron.env.example").read_text()
RUNBOOK = (DEPLOY / "README.md").read_text()
KNOWN = set(setting_variables(Settings))


def played(command: list[str]) -> list[str]:
    """The roles of a `serve` command, as its own parser understands it."""
    name, *arguments = command
    context = typer.main.get_group(app).commands[name].make_context(name, list(arguments))
    return [str(role) for role in context.params["role"] or ROLES]


def test_every_role_is_played_by_exactly_one_service() -> None:
    assert sorted(role for service in OURS.values() for role in played(service["command"])) == sorted(ROLES)


def test_the_table_of_services_says_who_plays_what() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", RUNBOOK, re.MULTILINE))
    assert {name: rows[name].split(", ") for name in OURS} == {
        name: played(service["command"]) for name, service in OURS.items()
    }
    assert set(rows) == set(SERVICES)


@pytest.mark.parametrize("text", [(DEPLOY / "compose.yaml").read_text(), DOCKERFILE, EXAMPLE, RUNBOOK])
def test_only_settings_that_exist_are_named(text: str) -> None:
    assert set(re.findall(r"\bPOWERON_[A-Z_]+", text)) <= KNOWN


def test_what_the_example_file_may_set_reaches_the_services() -> None:
    may_set = set(re.findall(r"^(?:# )?((?:POWERON|OTEL)_\w+)=", EXAMPLE, re.MULTILINE))
    for service in OURS.values():
        assert may_set <= set(service["environment"])


def settings_classes(of: type[BaseSettings]) -> Iterator[type[BaseSettings]]:
    """Our classes of settings, without those that are a part of another."""
    for subclass in of.__subclasses__():
        if subclass.__subclasses__():
            yield from settings_classes(subclass)
        elif subclass.__module__.startswith("poweron_"):
            yield subclass


def test_every_setting_reaches_every_service() -> None:
    ours = set(settings_classes(BaseSettings))
    assert {"Settings", "ProviderSettings", "SearchKeys"} <= {settings.__name__ for settings in ours}
    known = {variable for settings in ours for variable in setting_variables(settings)}
    for service in OURS.values():
        assert known - set(service["environment"]) == set()


def test_what_passes_the_settings_is_generated() -> None:
    build = runpy.run_path(str(DEPLOY / "build.py"))
    compose = (DEPLOY / "compose.yaml").read_text()
    assert build["written"](compose) == compose, "run `uv run deploy/build.py`"


def in_the_container(environment: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    """The variables that Compose sets when neither `.env` nor the shell sets one."""
    for name, value in environment.items():
        if value is not None:
            yield name, re.sub(r"^\$\{\w+-(.*)\}$", r"\1", value)


def test_the_services_start_with_the_settings_of_compose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    make_secrets(tmp_path)
    for name, value in in_the_container(OURS["intake"]["environment"]):
        monkeypatch.setenv(name, value.replace("/run/secrets", str(tmp_path / "secrets")))
    settings = Settings()
    assert (settings.kafka, settings.kafka_security_protocol) == ("kafka:9092", "SASL_PLAINTEXT")
    assert (settings.kafka_sasl_mechanism, settings.kafka_sasl_username) == ("SCRAM-SHA-512", "poweron")
    assert settings.kafka_sasl_password is not None
    assert len(settings.kafka_sasl_password.get_secret_value()) == 48
    assert settings.postgres is not None
    assert settings.postgres.get_secret_value().endswith("@postgres/poweron")


def make_secrets(deploy: Path) -> dict[str, str]:
    script = deploy / "make-secrets.sh"
    script.write_text((DEPLOY / "make-secrets.sh").read_text())
    subprocess.run(["sh", str(script)], check=True, timeout=30)
    return {path.name: path.read_text().strip() for path in (deploy / "secrets").iterdir()}


def test_the_passwords_are_made_once_and_belong_together(tmp_path: Path) -> None:
    made = make_secrets(tmp_path)
    assert set(made) == set(COMPOSE["secrets"])
    assert {secret["file"] for secret in COMPOSE["secrets"].values()} == {f"./secrets/{name}" for name in made}
    assert made["postgres_password"] in made["poweron_postgres"]
    assert len({made["kafka_password"], made["postgres_password"]}) == 2
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert make_secrets(tmp_path) == made


def test_no_service_has_a_password_in_its_environment() -> None:
    for service in SERVICES.values():
        passwords = {name: value for name, value in service["environment"].items() if name.endswith("PASSWORD")}
        assert set(passwords.values()) <= {None}
        named = re.findall(r"/run/secrets/(\w+)", str(service["environment"]))
        assert set(named) <= set(service["secrets"]) <= set(COMPOSE["secrets"])


def test_every_service_has_a_limit_of_memory() -> None:
    for service in SERVICES.values():
        assert re.fullmatch(r"\$\{[A-Z]+_MEMORY:-\d+g\}", service["mem_limit"])


def test_all_services_share_one_content_store() -> None:
    places = {service["environment"]["POWERON_CONTENT"] for service in OURS.values()}
    assert places == {"${POWERON_CONTENT-/var/lib/poweron/content}"}
    for service in OURS.values():
        assert "content:/var/lib/poweron/content" in service["volumes"]


def default_images() -> list[str]:
    """Every image that is used if no variable names another, such as one with a digest."""
    theirs = [service["image"] for name, service in SERVICES.items() if name not in OURS]
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2
    arguments = [service["build"]["args"]["PYTHON_IMAGE"] for service in OURS.values()]
    assert {without_variable(argument) for argument in arguments} == {base}
    return [base, *(service["image"] for service in OURS.values()), *map(without_variable, theirs)]


def without_variable(image: str) -> str:
    found = re.fullmatch(r"\$\{[A-Z]+_IMAGE:-(\S+)\}", image)
    assert found is not None, image
    return found[1]


def test_every_image_has_an_exact_version() -> None:
    assert [image for image in default_images() if not re.search(r":\d+\.\d+(\.\d+)?(-[\w-]+)?$", image)] == []
    assert "pip install --no-cache-dir uv==" in DOCKERFILE


def test_the_broker_is_the_one_that_the_tests_know() -> None:
    jars = (HOUSE / "services/poweron_services/embedded/jars.sha256").read_text()
    (version,) = set(re.findall(r"/kafka_2\.13-([\d.]+)\.jar", jars))
    assert without_variable(SERVICES["kafka"]["image"]) == f"apache/kafka:{version}"


def test_the_files_that_the_image_is_made_of_exist() -> None:
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert copied
    assert [source for source in copied if not (HOUSE / source).exists()] == []
    kept = re.findall(r"^!(.*)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(kept)


def test_nothing_runs_as_root_and_everything_comes_back() -> None:
    assert re.search(r"^USER [1-9]\d+$", DOCKERFILE, re.MULTILINE)
    for service in SERVICES.values():
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"
        assert service["stop_grace_period"]


def in_the_container_port(service: dict[str, Any]) -> str:
    """Where the process answers its probes, from within its container."""
    return service["environment"]["POWERON_METRICS"].replace("0.0.0.0", "http://127.0.0.1") + "/livez"


def test_the_health_checks_are_commands_that_exist() -> None:
    (of_the_image,) = re.findall(r"HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    checks = [yaml.safe_load(of_the_image)]
    for service in OURS.values():
        *limit, shell, option, both = service["healthcheck"]["test"][1:]
        assert (shell, option) == ("sh", "-c")
        of_the_process, of_the_servers = both.split(" && exec ")
        assert in_the_container_port(service) in of_the_process
        checks.append([*limit, *of_the_servers.split()])
    commands = typer.main.get_group(app).commands
    for *limit, _seconds, program, command, option in checks:
        assert limit == ["timeout", "--kill-after=2"]
        assert program == "poweron"
        assert commands[command].make_context(command, [option]).params == {"as_json": True}


def test_every_health_check_ends_by_itself_before_docker_gives_up() -> None:
    """A check that Docker kills says nothing; one that ends says which server is down."""
    for service in SERVICES.values():
        test, timeout = service["healthcheck"]["test"], int(service["healthcheck"]["timeout"].removesuffix("s"))
        (limit,) = [int(word) for word in test if word.isdecimal()]
        assert limit + 2 <= timeout


def test_what_the_broker_is_started_with_is_in_its_container() -> None:
    kafka = SERVICES["kafka"]
    assert "./kafka:/etc/poweron:ro" in kafka["volumes"]
    assert kafka["entrypoint"] == ["bash", "/etc/poweron/start.sh"]
    subprocess.run(["bash", "-n", str(DEPLOY / "kafka/start.sh")], check=True, timeout=30)
    assert "allow.everyone" not in (DEPLOY / "kafka/server.properties").read_text()


# --- metrics ------------------------------------------------------------------------------------------

PROMETHEUS = DEPLOY / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"][0]["rules"]


def test_prometheus_reads_every_service_where_it_answers() -> None:
    example = yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())
    (job,) = example["scrape_configs"]
    ports = {name: service["environment"]["POWERON_METRICS"].partition(":")[2] for name, service in OURS.items()}
    assert job["static_configs"][0]["targets"] == [f"{name}:{port}" for name, port in ports.items()]
    assert [(PROMETHEUS / name).exists() for name in example["rule_files"]] == [True]


@pytest.mark.soak
def test_prometheus_accepts_the_configuration_and_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool; the package of Prometheus has it")
    checked = subprocess.run(
        [promtool, "check", "config", PROMETHEUS / "prometheus.yaml"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout + checked.stderr


def test_every_alert_says_what_to_do_and_so_does_the_runbook() -> None:
    rows = re.findall(r"^\| `(PowerOn\w+)` \| (.*) \|$", RUNBOOK, re.MULTILINE)
    assert rows == [(rule["alert"], rule["annotations"]["runbook"]) for rule in RULES]
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["runbook"].endswith(".")


def test_the_commands_of_the_runbook_lines_exist() -> None:
    named = {word for rule in RULES for word in re.findall(r"`poweron (\w+)", rule["annotations"]["runbook"])}
    assert named <= set(typer.main.get_group(app).commands)


def test_the_page_of_metrics_has_a_row_for_each() -> None:
    page = (HOUSE / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(HOUSE / "docs" / "metrics_page.py"))["written"](page) == page
