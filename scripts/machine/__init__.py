"""What is installed and running on this machine."""
