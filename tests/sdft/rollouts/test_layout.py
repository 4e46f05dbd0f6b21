"""The workers that a run's settings ask for."""

from selfsurf.sdft.rollouts.layout import Layout
from selfsurf.sdft.run.generating import layout_of

LIMITS = {
    "rollout_start_timeout": 1.0,
    "rollout_call_timeout": 2.0,
    "rollout_patience": 3.0,
    "rollout_episode_timeout": 4.0,
}


def test_limits_of_workers_are_those_of_the_settings(settings):
    workers = {"rollout_workers": 2}
    assert layout_of(settings.model_copy(update=workers)) == Layout(browser_workers=2)
    found = layout_of(settings.model_copy(update={**workers, **LIMITS}))
    assert (found.start_timeout, found.call_timeout, found.patience, found.episode_timeout) == (1.0, 2.0, 3.0, 4.0)
