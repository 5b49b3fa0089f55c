"""Settings whose secrets may be in files: `POWERON_POSTGRES_FILE` names the file with `POWERON_POSTGRES`."""

import os
from typing import Any, Final, get_args

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from poweron_events.secret_files import SUFFIX, secret_from_file

TITLE: Final = "Settings"  # of every error about a setting, regardless of its class


class SecretSettings(BaseSettings):
    """Settings that read each unset secret from the file named by its `…_FILE` variable."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Look for secrets in files last."""
        return init_settings, env_settings, dotenv_settings, file_secret_settings, _SecretFiles(settings_cls)


def setting_variables(settings: type[BaseSettings]) -> list[str]:
    """Return the variables of all fields; the one of a secret is followed by the one of its file."""
    variables: list[str] = []
    for name, field in settings.model_fields.items():
        variable = _variable(settings, name, field)
        variables += [variable, variable + SUFFIX] if _is_secret(field) else [variable]
    return variables


def secret_variables(settings: type[BaseSettings]) -> dict[str, str]:
    """Return the name of each field that holds a secret, with its variable."""
    fields = settings.model_fields.items()
    return {name: _variable(settings, name, field) for name, field in fields if _is_secret(field)}


def set_values(settings: BaseSettings) -> dict[str, str]:
    """Return the settings that were set, by their variables, as text; without those that hold a secret."""
    kind = type(settings)
    values = {
        _variable(kind, name, field): getattr(settings, name)
        for name, field in kind.model_fields.items()
        if name in settings.model_fields_set and not _is_secret(field)
    }
    return {variable: _as_text(value) for variable, value in values.items() if value is not None}


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _SecretFiles(PydanticBaseSettingsSource):
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        variable = _variable(self.settings_cls, field_name, field)
        try:
            return secret_from_file(variable, os.environ), field_name, False
        except ValueError as error:
            wrong = InitErrorDetails(type="value_error", loc=(variable + SUFFIX,), input=None, ctx={"error": error})
            raise ValidationError.from_exception_data(TITLE, [wrong]) from error

    def __call__(self) -> dict[str, Any]:
        fields = self.settings_cls.model_fields
        values = {name: self.get_field_value(fields[name], name)[0] for name in secret_variables(self.settings_cls)}
        return {name: secret for name, secret in values.items() if secret is not None}


def _variable(settings: type[BaseSettings], name: str, field: FieldInfo) -> str:
    if isinstance(field.validation_alias, str):
        return field.validation_alias
    return f"{settings.model_config.get('env_prefix', '')}{name}".upper()


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in {field.annotation, *get_args(field.annotation)}
