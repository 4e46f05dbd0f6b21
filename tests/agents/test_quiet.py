"""What loads model libraries leaves out what they say about themselves."""

import subprocess
import sys

import pytest

from tests.few import few

PROGRAM = """
import importlib, sys, warnings
importlib.import_module(sys.argv[1])
with warnings.catch_warnings(record=True) as told:
    warnings.warn_explicit("old", FutureWarning, "modeling_utils.py", 1, "transformers.modeling_utils")
    warnings.warn_explicit("ours", FutureWarning, "agent.py", 1, "own.agent")
assert [str(one.message) for one in told] == ["ours"], told
"""


@pytest.mark.parametrize(
    "module", few(1, ["policies.transformers", "adapters.verify", "policies.mlx", "policies.tensorrt"])
)
def test_what_loads_transformers_does_not_pass_on_its_deprecations(module):
    if module == "adapters.verify":
        pytest.importorskip("mlx.core")
    command = [sys.executable, "-c", PROGRAM, f"selfsurf.agents.{module}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
