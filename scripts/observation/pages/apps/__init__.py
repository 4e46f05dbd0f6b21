"""Applications that pages come from. The modules in here run in the applications' own virtual environments."""
