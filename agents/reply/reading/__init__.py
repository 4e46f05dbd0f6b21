"""The steps of reading a model's reply, combined by `agents.reply.parse`."""
