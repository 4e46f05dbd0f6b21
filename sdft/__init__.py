"""Learning: rollouts, samples, teacher, trainer, evaluation, adapters."""

from selfsurf.bare import alias

alias(__name__)
