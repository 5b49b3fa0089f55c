"""A model behind a server that holds it to a schema, such as llama.cpp or vLLM: it writes only what the schema admits.

It understands nothing: within the schema, chance decides. So what is rejected of it is what the schema cannot say.
"""

import json
import random
import string
from dataclasses import dataclass, field
from typing import Any

from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt
from poweron_services.models.providers.schema_dialects import told
from poweron_services.settings.config import Provider

REFERENCE = "docList:round1_request"
MOST = 3  # entries of a list, where it may have more


@dataclass
class Constrained:
    """Answers in the form that the dialect of a provider describes."""

    provider: Provider
    chance: random.Random
    answered: dict[str, int] = field(default_factory=dict)

    async def complete(self, prompt: Prompt) -> Completion:
        self.answered[prompt.stage] = self.answered.get(prompt.stage, 0) + 1
        if prompt.answer_schema is None:
            return Completion(self._text({}), "test", "constrained", 10, 5)
        said = self.value(told(prompt.answer_schema, self.provider).schema)
        return Completion(json.dumps(said), "test", "constrained", 10, 5)

    def value(self, schema: Any) -> Any:  # noqa: PLR0911 - one case per kind of schema
        """Any value that the schema admits."""
        if "anyOf" in schema:
            return self.value(self.chance.choice(schema["anyOf"]))
        if "enum" in schema:
            return self.chance.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                needed = schema.get("required", ())
                return {
                    name: self.value(inner)
                    for name, inner in schema.get("properties", {}).items()
                    if name in needed or self.chance.random() < 0.5
                }
            case "array":
                least = schema.get("minItems", 0)
                most = max(least, min(MOST, schema.get("maxItems", MOST)))
                return [self.value(schema.get("items", {})) for _ in range(self.chance.randint(least, most))]
            case "string":
                return REFERENCE if "pattern" in schema else self._text(schema)
            case "integer":
                return self.chance.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 9)))
            case "number":
                return self.chance.uniform(schema.get("exclusiveMinimum", schema.get("minimum", 0)), 1)
            case "boolean":
                return self.chance.random() < 0.5
        return None

    def _text(self, schema: Any) -> str:
        words = ["".join(self.chance.choices(string.ascii_lowercase, k=7)) for _ in range(4)]
        return f"About {' '.join(words)}."[: schema.get("maxLength", 200)]
