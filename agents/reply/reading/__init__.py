"""Steps of parsing a model's reply, combined by `agents.reply.parse`."""
