"""Browsers, contexts and tabs: how they are started, shared, watched and closed."""
