"""Which model is asked at which stage, and that nothing is imported for a model that nobody asked for."""

import re
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import orjson
import pytest
from doubles import script

from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.log.memory import MemoryLog
from poweron_events.request import RequestWorkflow
from poweron_projections.connection import Pool
from poweron_projections.log_guard import GuardedLog
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.call import StagedModel
from poweron_services.models.prompts import ParametersPrompt, Template
from poweron_services.models.scripted import ScriptedModel
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, run_request
from poweron_services.wiring import NameableModels, build_model, open_model


def parameters() -> ParametersPrompt:
    return ParametersPrompt(
        template=Template("empty", "=== data ===\n"),
        action_objective="Find the total",
        selected_action="ai.process",
        parameters_context="",
        fields=(),
        refusal=None,
    )


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({"model": "openai:small"}, ["Loading openai:small…"]),
        ({"model_plan": "mistral:large", "model_review": "openai:small"}, ["Loading mistral:large and openai:small…"]),
        ({"model": "scripted:nowhere.json"}, []),
    ],
)
async def test_whoever_asks_is_told_that_clients_of_providers_are_loaded(
    models: dict[str, str], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MISTRAL_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    log, pool = MemoryLog(), cast("Pool", None)
    connections = Connections(Settings(**models), GuardedLog(log, pool), pool, ContentStore.at("memory:///"))
    told: list[str] = []
    with pytest.raises(Refused):  # there is no key, and no script
        await run_request(
            connections,
            RequestWorkflow(prompt="?"),
            [],
            identity=local_identity(),
            serving=True,
            callbacks=Callbacks(),
            progress=told.append,
        )
    assert told == said


def test_with_the_built_in_model_no_client_library_is_imported() -> None:
    program = (
        "import sys; from contextlib import AsyncExitStack; from poweron_services.settings.config import Settings; "
        "from poweron_services.wiring import build_model; build_model(Settings(), AsyncExitStack()); "
        "print(sorted({'pydantic_ai', 'openai', 'httpx2'} & sys.modules.keys()))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize("setting", ["POWERON_MODEL_PARAMETERIZE", "POWERON_MODEL_PARAMETERS"])
async def test_one_stage_may_have_a_model_of_its_own_also_under_its_old_name(setting, tmp_path, monkeypatch) -> None:
    path = tmp_path / "script.json"
    path.write_bytes(orjson.dumps({kind.__name__: lines for kind, lines in script().items()}))
    monkeypatch.setenv(setting, f"scripted:{path}")
    async with open_model(Settings()) as model:
        assert isinstance(model, StagedModel)
        assert {stage for stage, each in model.models.items() if isinstance(each, ScriptedModel)} == {"parameterize"}
        assert len({id(each) for each in model.models.values() if isinstance(each, BuiltinModel)}) == 1
        assert (await model.complete(parameters())).provider == "scripted"
    assert (Settings().deprecated is None) is (setting == "POWERON_MODEL_PARAMETERIZE")


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("openai:gpt-4o", "A model of openai is asked for: set OPENAI_API_KEY to your key."),
        ("openai-responses:gpt-4o", "A model of openai is asked for: set OPENAI_API_KEY to your key."),
        ("anthropic:claude-opus-5", "A model of anthropic is asked for: set ANTHROPIC_API_KEY to your key."),
        ("mistral:mistral-large-2411", "A model of mistral is asked for: set MISTRAL_API_KEY to your key."),
        ("azure:gpt-4o", "A model of azure is asked for: set AZURE_OPENAI_API_KEY to your key."),
    ],
)
def test_a_key_that_is_missing_is_named(model: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, "")
    with pytest.raises(Refused) as refused:
        build_model(Settings(model=model), AsyncExitStack())
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("builtin", None),
        ("openai:gpt-4o", None),  # its key is set
        ("scripted:told.json", "The model 'scripted:told.json' is not configured."),  # though a setting names it
        ("mistral:large", "The model 'mistral:large' is not configured. A model of mistral is asked for: set "),
        ("builtin,openai:gpt-4o", "The model 'builtin,openai:gpt-4o' is not configured."),
        ("nope", "The model 'nope' is not configured."),
        ("openai:\u202e", "The model 'openai:\\u202e' is not configured."),
        ("", "The model '' is not configured."),
    ],
)
async def test_a_request_names_only_a_model_that_is_configured(
    name: str, problem: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "told.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    monkeypatch.setenv("MISTRAL_API_KEY", "")
    models = NameableModels(Settings(model="builtin", model_plan="scripted:told.json"))
    if problem is None:
        await models.check(name)
        return
    with pytest.raises(Refused, match=re.escape(problem)) as refused:
        await models.check(name)
    assert refused.value.code == "model_misconfigured"


async def test_connections_are_closed_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    async with AsyncExitStack() as opened:
        model = build_model(Settings(model="openai:gpt-4o"), opened)
    assert model._http.is_closed
