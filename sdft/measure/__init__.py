"""Measures of a model: success on held-out episodes, agreement with recordings, perplexity and general questions."""
