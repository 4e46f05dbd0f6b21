"""Agents map observations to actions. Importing the package loads no model library; `make` loads one when needed.

agent = agents.make("transformers", model="smollm2")
agent.reset(obs["goal"])
action = agent.act(obs)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from selfsurf.agents.agent import Act, Agent, Decision, Privileged
from selfsurf.agents.policy import Completion, Conversation, Message, Policy, PolicyError
from selfsurf.agents.scripted import OracleAgent, RandomAgent, ScriptedAgent
from selfsurf.bare import alias
from selfsurf.browser_env.classes import classes_beside, load_class
from selfsurf.extras import how_to_install

if TYPE_CHECKING:
    from selfsurf.agents.webtask import SyncWebtask, Webtask

__all__ = [
    "BACKENDS", "COMPOSED", "Act", "Agent", "Backend", "Completion", "Conversation", "Decision", "Message", "Policy",
    "PolicyError", "Privileged", "SyncWebtask", "Webtask", "backend_of", "check_options", "is_policy", "make", "names",
    "policy_class", "takers",
]  # fmt: skip


@dataclass(frozen=True)
class Backend:
    """The class behind a policy's name, with the packages and default options that the class needs."""

    where: str
    """Import path `module:Class` of the policy; the class gets the options that `LLMAgent` doesn't take."""
    packages: tuple[str, ...] = ()
    """Names of the Python packages that must be installed."""
    extra: str = ""
    """Name of the extra of this distribution that installs the packages; empty for none."""
    remote: bool = False
    """Whether the model runs on a server."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Default options of the policy; options given by the caller override them."""


BACKENDS: dict[str, Backend] = {
    "transformers": Backend(
        "selfsurf.agents.policies.transformers.policy:TransformersPolicy",
        ("torch", "transformers", "llguidance"),
        "train",
    ),
    "openai": Backend("selfsurf.agents.policies.openai.policy:OpenAIPolicy", ("openai",), "openai", remote=True),
    "nim": Backend(
        "selfsurf.agents.policies.openai.policy:OpenAIPolicy", ("openai",), "nim", True, {"endpoint": "nim"}
    ),
    "tensorrt": Backend("selfsurf.agents.policies.tensorrt.policy:TensorRTPolicy", ("tensorrt_llm",)),
    "mlx": Backend("selfsurf.agents.policies.mlx.policy:MLXPolicy", ("mlx", "mlx_lm", "mlx_vlm", "llguidance"), "mlx"),
}
"""Language models by name. A new model needs one line here, or none: `make("module:Class")`."""

COMPOSED: dict[str, str] = {
    "graph": "selfsurf.agents.graph.agent:GraphAgent",
    "roles": "selfsurf.agents.roles.executor:TaskExecutor",
}
"""Agents built around an `LLMAgent`, by name. Their option `policy` is a `Policy` or a backend's name (default:
`transformers`).
"""


def make(name: str, **options: Any) -> Agent:
    """Make an agent by name.

    With an `adapter` trained by this project, the agent uses the prompt settings of the adapter's training
    (`agents.adapters.prompt`): kinds of actions, limits, vision, guards. Explicit options override them.

    Args:
        name: a backend (one of `BACKENDS`), one of `COMPOSED`, `module:Class` or `file.py:Class` of any other `Policy`
            or agent, or `scripted`, `random` or `oracle`.
        options: options of `LLMAgent` (`prompt`, `constrained`, `temperature`, ...) and of the backend's policy
            (`model`, `adapter`, `seed`, ...); other agents take the options of their class. Types are checked.

    Raises:
        browser_env.arguments.WrongName: an option is unknown or missing; a TypeError.
        browser_env.arguments.OptionError: an option's value is invalid; a ValueError.
        ValueError: no agent has that name.
        ImportError: a required package is not installed.
        agents.adapters.identity.AdapterError: the settings saved beside the adapter are damaged, or name the file of a
            prompt that has not been imported.
    """
    options = check_options(name, options)
    if name in _SIMPLE:
        return _SIMPLE[name](**options)
    if name in COMPOSED:
        return _composed(name, options)
    kind: Any = policy_class(name)
    if not is_policy(kind):
        agent: Agent = kind(**options)
        return agent
    from selfsurf.agents.adapters.prompt import read_prompt
    from selfsurf.agents.llm.llm_agent import LLMAgent

    own, around = inspect.signature(kind).parameters, inspect.signature(LLMAgent).parameters
    prompt = read_prompt(options.get("adapter"))
    if prompt is not None and prompt.role != "agent":
        raise ValueError(
            f"{options['adapter']} is a verifier's adapter, not an agent's: pass it to roles as verifier_adapter."
        )
    given = {key: options.pop(key) for key in around if key in options and key not in own}
    if prompt is not None and "prompt" not in given:
        prompt.check_imported()
    policy = kind(**options)
    trained = {} if prompt is None else prompt.options(policy)
    return LLMAgent(policy, **{**trained, **given})


def _composed(name: str, options: dict[str, Any]) -> Agent:
    from selfsurf.agents.llm.llm_agent import LLMAgent

    around: Any = load_class(COMPOSED[name])
    policy = options.pop("policy")
    own = {key: options.pop(key) for key in inspect.signature(around).parameters if key in options}
    kind = policy_class(policy) if isinstance(policy, str) else type(policy)
    options = {**around.defaults(kind, trained=bool(options.get("adapter"))), **options}
    if isinstance(policy, str):
        agent: Any = make(policy, **options)
    else:  # defaults include policy options
        known = inspect.signature(LLMAgent).parameters
        agent = LLMAgent(policy, **{key: value for key, value in options.items() if key in known})
    made: Agent = around(agent, **own)
    return made


def backend_of(name: str, options: Mapping[str, Any]) -> str:
    """Return the source of an agent's policy: a composed agent's option `policy`, or else the agent's own name."""
    return str(options.get("policy") or "transformers") if name in COMPOSED else name


def policy_class(name: str) -> Callable[..., Policy]:
    """Import and return the class of a backend, or of `module:Class` or `file.py:Class`.

    Raises:
        ValueError: the class doesn't exist, or is neither an agent nor a policy.
        ImportError: a required package is not installed.
    """
    if name not in BACKENDS and ":" not in name:
        if name in names():
            raise ValueError(f"{name!r} is an agent, not a policy for another agent.")
        near = get_close_matches(name, names(), 1)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise ValueError(
            f"Unknown agent {name!r}. {meant}Choose from {', '.join(names())}, or give file.py:Class or module:Class "
            "of an agent or a policy."
        )
    backend = BACKENDS.get(name, Backend(name))
    missing = [package for package in backend.packages if find_spec(package) is None]
    if missing:
        how = f": {how_to_install(backend.extra)}" if backend.extra else "; see docs/agents.md"
        raise ImportError(f"The agent {name} needs {', '.join(missing)}{how}.")
    found: Callable[..., Policy] = load_class(backend.where, wanted=_acts_or_completes)
    if inspect.isclass(found) and not _acts_or_completes(found):
        beside = classes_beside(found, _acts_or_completes).replace("; it", " Its file").removeprefix(".")
        raise ValueError(
            f"{name} is neither an agent with act(obs) or act_batch(observations), nor a policy with complete.{beside}"
        )
    return found


def _acts_or_completes(kind: Any) -> bool:
    return any(hasattr(kind, method) for method in ("complete", *_ACTS))


def is_policy(kind: Any) -> bool:
    """Whether a class makes policies, which need an `LLMAgent` around them, rather than agents."""
    return hasattr(kind, "complete") or not any(hasattr(kind, method) for method in _ACTS)


def check_options(name: str, options: Mapping[str, Any], written: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the options of `make(name, ...)` converted to their declared types. Loads no model.

    Args:
        name: name of the agent.
        options: values from JSON or in memory; a dict is converted to the declared object.
        written: source text of the options that were parsed from text (`browser_env.arguments.checked`).

    Raises:
        browser_env.arguments.OptionError: an option is unknown, missing or invalid; a ValueError.
        ValueError: no agent has that name.
        ImportError: a required package is not installed.
    """
    from selfsurf.browser_env.arguments import checked

    backend = backend_of(name, options)
    own = BACKENDS[backend].options if backend in BACKENDS else {}
    composed = {"policy": options.get("policy") or backend} if name in COMPOSED else {}
    given = {key: value for key, value in options.items() if key not in composed}
    return {**checked(f"The agent {name}", takers(name, options), {**own, **given}, written), **composed}


def takers(name: str, options: Mapping[str, Any] | None = None) -> tuple[Callable[..., Any], ...]:
    """Return the classes that take an agent's options; an option of several classes belongs to the first.

    Args:
        name: name of the agent.
        options: options of the agent, of which only a composed agent's `policy` is read.

    Raises:
        ValueError: no agent has that name, or a composed agent's `policy` is no policy.
        ImportError: a required package is not installed.
    """
    if name in _SIMPLE:
        return (_SIMPLE[name],)
    from selfsurf.agents.llm.llm_agent import LLMAgent

    policy = (options or {}).get("policy") or ""
    around = (load_class(COMPOSED[name]),) if name in COMPOSED else ()
    if around and not isinstance(policy, str):
        if isinstance(policy, type) or not callable(getattr(policy, "complete", None)):
            raise ValueError(f"The agent {name} needs a policy, but {policy!r} is not a policy.")
        return (*around, LLMAgent)
    kind = policy_class(backend_of(name, options or {}))
    if is_policy(kind):
        return (kind, LLMAgent, *around)
    if around:
        raise ValueError(f"The agent {name} needs a policy, but {policy} is not a policy.")
    return (kind,)


def names() -> tuple[str, ...]:
    """Return the names that `make` accepts."""
    return (*BACKENDS, *COMPOSED, *_SIMPLE)


def __getattr__(name: str) -> Any:
    """Import `Webtask` and `SyncWebtask` on first use, because their module imports this package."""
    if name in ("SyncWebtask", "Webtask"):
        return load_class(f"selfsurf.agents.webtask:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_ACTS = ("act", "act_batch", "decide")
_SIMPLE: dict[str, Callable[..., Agent]] = {"scripted": ScriptedAgent, "random": RandomAgent, "oracle": OracleAgent}

alias(__name__)
