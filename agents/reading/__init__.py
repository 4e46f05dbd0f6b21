"""The parts of reading a model's reply, each one thing; `agents.parse` puts them together."""
