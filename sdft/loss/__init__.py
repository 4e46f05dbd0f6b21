"""What is minimised: logits and divergence, rehearsal and practice."""
