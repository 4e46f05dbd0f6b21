"""What was tried with a browser, and what came of it: the log that explains a run afterwards."""
