"""The names of OpenTelemetry's conventions for generative AI, kept in one place because they may still change."""

from typing import Final

from poweron_events.event import ModelCall
from poweron_services.telemetry.spans import Value

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"

CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
FUNCTION: Final = "function"


def answer_attributes(call: ModelCall) -> dict[str, Value]:
    """Return the span attributes of an answered call; its prompt and answer appear only as references."""
    return {
        PROVIDER: call.provider,
        RESPONSE_MODEL: call.model,
        INPUT_TOKENS: call.input_tokens,
        OUTPUT_TOKENS: call.output_tokens,
        CACHED_INPUT_TOKENS: call.cached_input_tokens,
        REASONING_TOKENS: call.reasoning_tokens,
        "poweron.template": call.template,
        "poweron.cost_nano_usd": call.cost_nano_usd,
        "poweron.duration_ms": call.duration_ms,
        "poweron.tries": call.tries,
        "poweron.finish_reason": call.finish_reason or "",
        "poweron.prompt_ref": call.prompt_ref or "",
        "poweron.answer_ref": call.answer_ref or "",
    }
