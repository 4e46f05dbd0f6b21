"""Replies of models: compact JSON for actions, the grammar and schema that constrain it, and the parser."""
