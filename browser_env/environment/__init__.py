"""The environment: reset, step and close, and its Gymnasium interfaces."""
