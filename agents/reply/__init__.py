"""What a model writes: the short JSON of actions, the grammar and schema that constrain it, and how it is parsed."""
