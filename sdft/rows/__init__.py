"""From episodes to training rows."""
