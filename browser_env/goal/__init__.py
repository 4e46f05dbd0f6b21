"""Success criteria of goals as data, and checks of whether an episode meets them."""
