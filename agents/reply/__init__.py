"""Replies of models: compact JSON for actions, grammars and schemas that constrain replies, and the parser."""
