"""What a model is shown: page, history, examples and pictures, within a budget of tokens."""
