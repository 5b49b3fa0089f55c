"""Servers that behave like the providers of language models, for their real client libraries.

Each answers in the shape of its own API, and takes only what that takes (`provider_rules`).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import provider_rules
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from poweron_services.models.providers import ProviderModel
from poweron_services.settings.config import Provider, ProviderSettings, Settings

KEY = "canary-4e1fd0c3a9"
PATHS: dict[Provider, str] = {
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "azure": "/openai/v1/chat/completions",
    "ollama": "/v1/chat/completions",
    "mistral": "/v1/chat/completions",
    "anthropic": "/v1/messages",
}
PLACES: dict[Provider, str] = {
    "openai": "/v1",
    "openai-responses": "/v1",
    "azure": "/openai/v1/",
    "ollama": "/v1",
    "mistral": "",
    "anthropic": "",
}
DEPLOYMENT = "/openai/deployments/gpt-4o-mini/chat/completions"  # of Azure, where a version is named
MODELS: dict[Provider, str] = {
    "openai": "gpt-4o-mini",
    "openai-responses": "gpt-4o-mini",
    "azure": "gpt-4o-mini",
    "ollama": "llama3.2",
    "mistral": "mistral-large-2411",
    "anthropic": "claude-opus-5",
}


def known(server: HTTPServer, key: str = KEY) -> ProviderSettings:
    """The providers' variables, all leading to the server."""
    at = server.url_for("").rstrip("/")
    return ProviderSettings(
        openai_api_key=key,
        openai_base_url=f"{at}/v1",
        anthropic_api_key=key,
        anthropic_base_url=at,
        mistral_api_key=key,
        mistral_base_url=at,
        azure_openai_api_key=key,
        azure_openai_endpoint=f"{at}/openai/v1/",
        ollama_base_url=f"{at}/v1",
    )


def opened(server: HTTPServer, provider: Provider, **settings: Any) -> ProviderModel:
    """A model there, of which the settings say how much it takes, so that the server is not asked for it."""
    return ProviderModel(provider, MODELS[provider], Settings(**{"model_window": 128_000, **settings}), known(server))


# --- what they answer -----------------------------------------------------------------------------------


def answer(provider: Provider, said: Any, asked: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The body of a good answer: through the tool, where the request gives one and an object is said, else as text."""
    name = None if isinstance(said, str) else tool_of(asked)
    text = said if isinstance(said, str) else json.dumps(said)
    return {**_SHAPES[provider](asked["model"], name, said, text), **changes}


def tool_of(asked: dict[str, Any]) -> str | None:
    """The name of the tool that the request gives."""
    tools = asked.get("tools")
    return (tools[0].get("function") or tools[0])["name"] if tools else None


def _chat(model: str, name: str | None, _: Any, text: str) -> dict[str, Any]:
    called = {"id": "call00001", "type": "function", "function": {"name": name, "arguments": text}}
    message = {"role": "assistant", "content": None if name else text, "tool_calls": [called] if name else None}
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if name else "stop"}],
        "usage": {"prompt_tokens": 1_000, "completion_tokens": 20, "total_tokens": 1_020},
    }


def _responses(model: str, name: str | None, _: Any, text: str) -> dict[str, Any]:
    written = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [written]}
    called = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name, "arguments": text}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [called | {"status": "completed"} if name else message],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "store": False,
        "usage": {
            "input_tokens": 1_000,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 1_020,
        },
    }


def _messages(model: str, name: str | None, said: Any, text: str) -> dict[str, Any]:
    used = {"type": "tool_use", "id": "call_1", "name": name, "input": said}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [used if name else {"type": "text", "text": text}],
        "stop_reason": "tool_use" if name else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1_000, "output_tokens": 20},
    }


_SHAPES: dict[Provider, Callable[[str, str | None, Any, str], dict[str, Any]]] = {
    "openai": _chat,
    "openai-responses": _responses,
    "azure": _chat,
    "mistral": _chat,
    "ollama": _chat,
    "anthropic": _messages,
}


def error_body(provider: Provider, message: str, kind: str = "error", code: str | None = None) -> dict[str, Any]:
    if provider == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message} | ({"code": code} if code else {})}
    if provider == "mistral":
        return {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def as_json(body: Any, status: int = 200, **headers: str) -> Response:
    return Response(json.dumps(body), status, {"Content-Type": "application/json", **headers})


Reply = Callable[[dict[str, Any]], Response]


def playing_stages(criterion: str, text: str, provider: Provider = "openai", **changes: dict[str, Any]) -> Reply:
    """A reply that gives each stage what it expects, which the name of its tool or of its form tells; else text.

    Args:
        criterion: by which the one task is judged.
        text: what is said where no object is asked for.
        provider: in whose form.
        changes: answers of stages, by the names of their tools.
    """
    stages: dict[str, Any] = {
        "answer_plan": {"tasks": [{"objective": "Find it", "successCriteria": [criterion], "taskType": "lookup"}]},
        "answer_parameterize": {"schema": "parameters_v1", "parameters": {}},
        "answer_refine": {
            "decision": "stop",
            "reason": "It is found.",
            "classification": "success",
            "criteriaProgress": [{"criterion": criterion, "met": True, "progress": 1000}],
        },
        "answer_review": {"status": "success", "reason": "It is found."},
        **changes,
    }

    def reply(asked: dict[str, Any]) -> Response:
        form = (asked.get("response_format") or {}).get("json_schema")
        said: Any = text
        if tool := tool_of(asked):
            said = stages[tool]
        elif form is not None:
            said = json.dumps(stages[form["name"]])
        return as_json(answer(provider, said, asked))

    return reply


@dataclass
class Playing:
    """A provider that replies from a script, in order; the last reply is repeated. What its API does not take it refuses."""

    server: HTTPServer
    provider: Provider
    replies: list[Reply]
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """The rules of the API that a request broke."""

    def __post_init__(self) -> None:
        for path in (PATHS[self.provider], *([DEPLOYMENT] if self.provider == "azure" else [])):
            self.server.expect_request(path, method="POST").respond_with_handler(self._reply)

    def _reply(self, request: Request) -> Response:
        try:
            provider_rules.check(self.provider, request)
        except provider_rules.Broken as broken:
            self.broken.append(str(broken))
            return as_json(error_body(self.provider, str(broken), "invalid_request_error"), broken.status)
        self.asked.append(json.loads(request.get_data()))
        self.headers.append(dict(request.headers))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply(self.asked[-1])


def saying(provider: Provider, said: Any, **changes: Any) -> Reply:
    return lambda asked: as_json(answer(provider, said, asked, **changes))


def failing(provider: Provider, status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    return lambda _: as_json(error_body(provider, message, code=code), status, **headers)


def sending(body: bytes | Any, status: int = 200) -> Reply:
    return lambda _: Response(body, status, {"Content-Type": "application/json"})
