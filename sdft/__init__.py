"""Learning: rollouts, samples, teacher, trainer, evaluation, adapters."""

from selfsurf import alias

alias(__name__)
