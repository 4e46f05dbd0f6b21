"""What counts as reaching a goal, written down, and whether an episode did."""
