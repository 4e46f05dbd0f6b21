"""Errors of the environment, one class a layer.

The layer that raised decides what becomes of a step: an `ActionError` is the agent's and turns into
`last_error`; an `EnvError` is the infrastructure's and ends the episode as `env_error`, never as a failure.
"""


class ActionError(ValueError):
    """The action is malformed or can't be carried out on this page. The message is one sentence for the agent."""


class EnvError(RuntimeError):
    """The infrastructure failed (dead browser, hung page, lost session). Nobody's policy is to blame."""


class BrowserNotFound(EnvError):
    """No usable browser was found. The message says where was looked and what to install."""
