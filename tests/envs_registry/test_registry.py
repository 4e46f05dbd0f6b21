import gymnasium
import pytest

from selfsurf import envs_registry
from selfsurf.tasks.miniwob import names


def test_all_registered_tasks_of_the_package_are_there():
    import miniwob  # noqa: F401  (registers its own ids)

    theirs = {
        spec.id.removeprefix("miniwob/").removesuffix("-v1")
        for spec in gymnasium.registry.values()
        if spec.namespace == "miniwob" and "flight." not in spec.id
    }
    assert set(names()) == theirs
    assert len(names()) == 125
    assert all(f"MiniWoB/{name}-v0" in gymnasium.registry for name in names())


def test_both_ways_to_make_an_environment():
    for env_id in ("MiniWoB/click-test-v0", "envs_registry:MiniWoB/click-test-v0", "envs_registry:Browser-v0"):
        options = {"start_url": "data:text/html,x"} if "Browser" in env_id else {}
        env = gymnasium.make(env_id, **options)
        env.reset(seed=0)
        env.close()


def test_ids_that_are_no_task_say_so():
    with pytest.raises(ValueError, match="not the id of a task"):
        envs_registry.task_of("CartPole-v1")
