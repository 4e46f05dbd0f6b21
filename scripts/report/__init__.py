"""Reports of benchmark results: figures, tables, comparisons, leaderboards."""
