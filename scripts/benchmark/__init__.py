"""Benchmarks of agents on suites: the runner, its books, and what is read out of them."""
