"""Benchmarks: run a suite into a results folder, and read results folders as reports, comparisons and leaderboards."""
