"""What a person at the command line can do about a code: the advice of the codes, with our commands and settings."""

from typing import Final

from poweron_events.codes import CODES

_WORKS: Final = "`poweron models check` says whether the model works"
_CHECK_MODEL: Final = f"{_WORKS}; ask again once it does."
_LARGER: Final = "Ask again with a larger budget"

_ADVICE: Final[dict[str, str]] = {
    "step_limit": "Ask again with more steps (`--max-steps`).",
    "token_budget": f"{_LARGER} (`--max-tokens`).",
    "cost_budget": f"{_LARGER} (`--max-cost`).",
    "answers_rejected": f"POWERON_MODEL_OUTPUT=prompted or a larger model may help. {_CHECK_MODEL}",
    "answer_unreadable": "POWERON_MODEL_OUTPUT=prompted or a larger model may help.",
    "answer_empty": "POWERON_MODEL_OUTPUT=prompted or a larger model may help.",
    "answer_cut_off": "A larger POWERON_MODEL_MAX_TOKENS, or a larger budget, leaves more room.",
    "model_unavailable": f"The variables of its provider say where it is. {_CHECK_MODEL}",
    "model_busy": _CHECK_MODEL,
    "model_timeout": f"POWERON_MODEL_TIMEOUT says how long it may take. {_CHECK_MODEL}",
    "model_access_denied": (
        "Set the variable of its provider (OPENAI_API_KEY, ANTHROPIC_API_KEY, MISTRAL_API_KEY, AZURE_OPENAI_API_KEY "
        f"or OLLAMA_API_KEY) to a key that is valid. {_CHECK_MODEL}"
    ),
    "model_unknown": f"Set POWERON_MODEL to a model that its provider has. {_CHECK_MODEL}",
    "model_quota_exceeded": "Top the account up, or set POWERON_MODEL to a model elsewhere.",
    "model_refused": _CHECK_MODEL,
    "model_misconfigured": (
        "See that its address is right (some end with `/v1`), and that POWERON_MODEL_OUTPUT fits. " + _CHECK_MODEL
    ),
    "prompt_too_long": "Hand over less, lower POWERON_MODEL_MAX_TOKENS, or use a model that takes more.",
    "content_store_unavailable": "See that the content store (POWERON_CONTENT) can be reached; ask again once it can.",
    "stage_timeout": f"{_WORKS}; ask again once it does, or for less at once.",
}


def advice_for(code: str | None) -> str:
    """One sentence or two: what can be done about it."""
    if code is not None and code in _ADVICE:
        return _ADVICE[code]
    explained = CODES.get(code or "")
    return explained.remedy if explained else "Change the request or its documents and ask again."
