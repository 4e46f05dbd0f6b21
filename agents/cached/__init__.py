"""Cache of successful flows, replayed without a model: `CachedAgentAdapter` around an agent, `Cache` on disk."""

from selfsurf.agents.cached.decider import CachedAgentAdapter
from selfsurf.agents.cached.flow import Flow, flow_of
from selfsurf.agents.cached.store import Cache, CacheError

__all__ = ["Cache", "CacheError", "CachedAgentAdapter", "Flow", "flow_of"]
