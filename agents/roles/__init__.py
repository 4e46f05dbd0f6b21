"""An agent with roles: a proposer acts, and a verifier must agree before the task counts as done.

`executor.py` has the agent, `role.py` the base class of roles. A custom role is a subclass with tools of its own.
"""

from selfsurf.agents.roles.executor import TaskExecutor
from selfsurf.agents.roles.proposer import Proposer
from selfsurf.agents.roles.role import BaseRole
from selfsurf.agents.roles.task import ExecutionResult, Mode, Proposal, RoleStep, RoleTask
from selfsurf.agents.roles.tools import MarkComplete, Tool, ToolRegistry
from selfsurf.agents.roles.verifier import Accept, Reject, Verifier

__all__ = [
    "Accept", "BaseRole", "ExecutionResult", "MarkComplete", "Mode", "Proposal", "Proposer", "Reject", "RoleStep",
    "RoleTask", "TaskExecutor", "Tool", "ToolRegistry", "Verifier",
]  # fmt: skip
