"""Playing episodes: the one loop between agents and environments."""
