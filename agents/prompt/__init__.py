"""Prompts: page, history, examples and pictures for the model, within a token budget."""
