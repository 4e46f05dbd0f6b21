"""Learning: rollouts, samples, teacher, trainer, evaluation, adapters."""
