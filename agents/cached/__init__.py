"""Cache of successful flows, replayed without a model: `CachedDecider` around an agent, `Cache` on disk."""

from selfsurf.agents.cached.decider import CachedDecider
from selfsurf.agents.cached.flow import Flow, flow_of
from selfsurf.agents.cached.store import Cache, CacheError

__all__ = ["Cache", "CacheError", "CachedDecider", "Flow", "flow_of"]
