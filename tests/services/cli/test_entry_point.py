"""The way in from Python."""

import subprocess
import sys

import pytest

import poweron_services
from poweron_services import standalone


@pytest.mark.req("L-01")
def test_the_entry_point_is_found_in_the_package() -> None:
    assert poweron_services.execute_unified_workflow is standalone.execute_unified_workflow
    with pytest.raises(AttributeError, match="has no attribute 'something_else'"):
        _ = poweron_services.something_else


def test_importing_the_package_imports_nothing_heavy() -> None:
    loaded = "import sys, poweron_services; print(sorted({'pydantic', 'aiokafka', 'asyncpg'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "[]\n"
