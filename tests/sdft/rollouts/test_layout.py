"""The settings of rollouts."""

import pytest
from pydantic import ValidationError

from selfsurf.sdft.rollouts.layout import RolloutSettings


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ahead": 1}, "need workers"),
        ({"engine": "http://host:8000/v1", "engine_folder": "/shared"}, "need workers"),
        ({"workers": 1, "engine": "http://host:8000/v1"}, "must be given together"),
        ({"worker": 1}, "Extra inputs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, why):
    with pytest.raises(ValidationError, match=why):
        RolloutSettings(**given)


def test_what_a_cluster_lacks_is_told():
    plan = RolloutSettings(workers=4, policy_workers=2)
    assert plan.missing({"CPU": 4}) == ""
    assert plan.missing({"CPU": 3}) == "CPU: 4 needed, 3 available"
