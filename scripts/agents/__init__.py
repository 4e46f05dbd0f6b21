"""Times the agents' policies."""
