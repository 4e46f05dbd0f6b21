"""Training as a service: a server that learns from uploaded episodes, and its client."""
