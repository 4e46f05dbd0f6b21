"""Applications that serve measured pages. These modules run in the applications' own virtual environments."""
