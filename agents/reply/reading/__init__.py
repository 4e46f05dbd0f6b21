"""The parts of reading a model's reply, each one thing; `agents.reply.parse` puts them together."""
