"""What a model can do: success on held-out episodes, perplexity and general questions."""
