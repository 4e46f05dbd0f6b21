"""At the root of a checkout `import browser_env` gives what `import selfsurf.browser_env` does, whoever comes first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.conftest import PARTS, ROOT

BARE = (
    "import agents, agents.policies.request, browser_env, browser_env.safety.secrets, tasks.miniwob, scripts.cli, sdft"
)
PREFIXED = ", ".join(f"selfsurf.{name}" for name in BARE.removeprefix("import ").split(", "))
SAME = (
    f"PARTS = {PARTS}"
    + """
import sys
names = [name for name in sys.modules if name.partition(".")[0] in PARTS]
assert {"agents", "agents.policies.request", "browser_env.safety.secrets", "scripts.cli"} <= set(names), names
for name in names:
    module = sys.modules[name]
    assert module is sys.modules["selfsurf." + name], name
    assert module.__name__ == module.__spec__.name == "selfsurf." + name, (name, module.__spec__)
assert agents.policies.request is selfsurf.agents.policies.request
ours = {id(module): module.__file__ for name, module in sys.modules.items() if name.startswith("selfsurf")}
assert len(ours) == len(set(ours.values())), "a file was loaded twice"
"""
)


@pytest.mark.parametrize(
    "first", [f"{BARE}\nimport {PREFIXED}", f"import {PREFIXED}\n{BARE}"], ids=["bare", "prefixed"]
)
def test_both_names_are_one_module(first: str, in_checkout: Callable[..., object]) -> None:
    in_checkout("-W", "error::ImportWarning", "-c", f"{first}\n{SAME}")


def test_names_reload_and_pickle_as_one(in_checkout: Callable[..., object]) -> None:
    in_checkout(
        "-c",
        """
import importlib, importlib.util, pickle
from agents.prompt import history
from agents.policy import Completion, Message
import agents, selfsurf.agents.policy, selfsurf.agents.prompt.history
assert history is selfsurf.agents.prompt.history and Message is selfsurf.agents.policy.Message
packed = pickle.dumps(Message("user", "Hello"))
assert b"selfsurf.agents.policy" in packed and type(pickle.loads(packed)) is selfsurf.agents.policy.Message
for module in (agents, history):
    assert importlib.reload(module) is module
import agents.prompt.history as again
assert again is history is importlib.import_module("selfsurf.agents.prompt.history")
assert importlib.util.find_spec("agents.nothing") is None
try:
    import agents.nothing
except ModuleNotFoundError as error:
    assert error.name == "agents.nothing"
else:
    raise AssertionError
""",
    )


def test_threads_that_import_at_once_get_one_module(in_checkout: Callable[..., object]) -> None:
    in_checkout(
        "-c",
        """
import importlib, sys, threading
import agents, sdft, selfsurf.scripts
sys.setswitchinterval(1e-6)
below = ["agents.policies.request", "agents.llm.llm_agent", "browser_env.safety.secrets", "scripts.cli", "sdft.settings"]
names = [prefix + name for name in below for prefix in ("", "selfsurf.")] * 2
start, found, failed = threading.Barrier(len(names)), {}, []
def load(number, name):
    start.wait()
    try:
        found[number] = importlib.import_module(name)
    except BaseException as error:
        failed.append((name, error))
threads = [threading.Thread(target=load, args=pair) for pair in enumerate(names)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed, failed
for number, name in enumerate(names):
    full = "selfsurf." + name.removeprefix("selfsurf.")
    assert found[number] is sys.modules[full], name
    assert found[number].__spec__.name == full, found[number].__spec__
""",
    )


def test_what_is_loaded_while_a_part_is_being_imported_is_ours(in_checkout: Callable[..., object]) -> None:
    """Another thread may ask for a module of a part that is still being imported by its bare name."""
    in_checkout(
        "-c",
        """
import sys, threading
from importlib import import_module
done, found = threading.Event(), []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "selfsurf.agents.policy" and not done.is_set():
            done.set()
            found.append(import_module("agents.reply"))
sys.meta_path.insert(0, Watch())
import agents
assert found == [sys.modules["selfsurf.agents.reply"]] and agents is sys.modules["selfsurf.agents"]
""",
    )


def test_secrets_known_by_one_name_are_known_by_the_other(in_checkout: Callable[..., object]) -> None:
    in_checkout(
        "-c",
        """
from browser_env.safety.secrets import Vault, redact_known
from selfsurf.browser_env.safety import secrets
bare, full = Vault({"bare": "hunter2hunter2"}), secrets.Vault({"full": "swordfish1"})
for redact in (redact_known, secrets.redact_known):
    hidden = redact({"text": "hunter2hunter2 and swordfish1"})
    assert hidden == {"text": "<secret:bare> and <secret:full>"}, hidden
""",
    )


def test_modules_run_by_either_name(in_checkout: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    printed = [in_checkout("-m", f"{prefix}scripts.cli", "--version").stdout for prefix in ("", "selfsurf.")]
    assert printed[0] == printed[1] != ""


@pytest.mark.slow
def test_doctests_find_the_same_module(tmp_path: Path) -> None:
    """Pytest imports files by names of its own making."""
    (tmp_path / "counting.py").write_text(
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    loaded = {id(m): m.__file__ for n, m in sys.modules.items() if n.endswith('agents.policy')}\n"
        "    print('loaded', len(loaded))\n",
        encoding="utf8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--doctest-modules", "-p", "no:cacheprovider", "-q", "-n0", "-s",
         "-p", "counting", "agents/policy.py"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "loaded 1" in done.stdout, done.stdout + done.stderr


def test_a_part_of_another_checkout_is_not_taken_silently(tmp_path: Path, in_checkout: Callable[..., object]) -> None:
    (tmp_path / "sdft").mkdir()
    (tmp_path / "sdft" / "__init__.py").write_text(
        "from selfsurf.bare import alias\nalias(__name__)\n", encoding="utf8"
    )
    in_checkout(
        "-W", "always", "-c",
        f"""
import sys, warnings
sys.path.insert(0, {str(tmp_path)!r})
with warnings.catch_warnings(record=True) as told:
    import sdft, selfsurf.sdft
assert sdft is selfsurf.sdft
[warning] = [one for one in told if issubclass(one.category, ImportWarning)]
assert {str(tmp_path)!r} in str(warning.message)
""",
    )  # fmt: skip
