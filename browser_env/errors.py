"""The environment's errors, one class per layer.

The layer that raises decides what becomes of a step: an `ActionError` is the agent's and becomes `last_error`; an
`EnvError` is the infrastructure's and ends the episode as `env_error`, never as a failure of the policy.
"""


class ActionError(ValueError):
    """The action is malformed or can't be carried out on this page. The message is one sentence for the agent."""


class EnvError(RuntimeError):
    """The infrastructure failed (dead browser, hung page, lost session). The policy is not to blame."""


class BrowserNotFound(EnvError):
    """No usable browser was found. The message says what to install."""
