"""The agent around a language model: prompt, reply, memory, queries."""
