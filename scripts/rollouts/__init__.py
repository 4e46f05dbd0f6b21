"""Times rollouts with workers, and calculates how they grow."""
