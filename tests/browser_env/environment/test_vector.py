import asyncio
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env import BrowserNotFound, EnvError, Finish, Score, Task, VectorBrowserEnv
from selfsurf.tasks.miniwob import MiniWobTask
from selfsurf.tasks.scenarios import scenario
from tests.processes import counts

WAIT = {"action": "wait", "ms": 0}


def test_the_native_vector_environment_steps_all_and_resets_what_ended():
    envs = gymnasium.make_vec("MiniWoB/click-test-v0", num_envs=3)
    assert isinstance(envs.unwrapped, VectorBrowserEnv)
    obs, infos = envs.reset(seed=5)
    assert obs["screenshot"].shape == (3, 214, 332, 3)
    assert len(obs["goal"]) == 3
    assert list(infos["outcome"]) == ["running"] * 3
    actions = [told["action"] for told in envs.unwrapped.privileged()]
    obs, rewards, terminated, _, infos = envs.step([actions[0], {"action": "wait", "ms": 0}, "nonsense"])
    assert rewards.tolist() == [1.0, 0.0, 0.0]
    assert terminated.tolist() == [True, False, False]
    assert list(infos["outcome"]) == ["solved", "running", "running"]
    assert obs["last_error"][2].startswith("An action is JSON")
    _, _, terminated, _, infos = envs.step([{"action": "wait", "ms": 0}] * 3)
    assert infos["outcome"][0] == "running"
    assert not terminated.any()
    envs.close()


def test_it_sees_what_single_environments_see():
    envs = gymnasium.make_vec("MiniWoB/click-option-v0", num_envs=2, screenshot=True)
    many, _ = envs.reset(seed=[3, 4])
    for index, seed in enumerate([3, 4]):
        env = gymnasium.make("MiniWoB/click-option-v0")
        one, _ = env.reset(seed=seed)
        assert one["dom"] == many["dom"][index]
        assert np.array_equal(one["screenshot"], many["screenshot"][index])
        env.close()
    envs.close()


@pytest.mark.slow
def test_the_step_limit_counts_for_each():
    envs = gymnasium.make_vec("MiniWoB/click-option-v0", num_envs=2, max_episode_steps=2, screenshot=False)
    envs.reset(seed=0)
    wait = [{"action": "wait", "ms": 0}] * 2
    envs.step(wait)
    *_, truncated, infos = envs.step(wait)
    assert truncated.all()
    assert list(infos["outcome"]) == ["timeout"] * 2
    with pytest.raises(ValueError, match="1 actions were given for 2"):
        envs.step(wait[:1])
    envs.close()


def solved(envs):
    return [told and told["action"] for told in envs.unwrapped.privileged()]


def test_next_step_is_the_default():
    envs = gymnasium.make_vec("MiniWoB/click-test-v0", num_envs=2, screenshot=False)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    envs.reset(seed=5)
    *_, infos = envs.step([solved(envs)[0], WAIT])
    assert infos["seed"].tolist() == [5, 6]
    obs, rewards, terminated, _, infos = envs.step([{"action": "click", "id": 1}, WAIT])
    assert (rewards.tolist(), terminated.tolist()) == ([0.0, 0.0], [False, False])
    assert (obs["last_action"][0], infos["seed"][1]) == ("", 6)
    single = gymnasium.make("MiniWoB/click-test-v0", screenshot=False)
    assert single.reset(seed=int(infos["seed"][0]))[0] == envs.unwrapped.observations[0]
    single.close()
    envs.close()


def test_same_step_returns_the_new_episode_and_the_end_of_the_old_one():
    envs = gymnasium.make_vec("MiniWoB/click-test-v0", num_envs=3, screenshot=False, autoreset_mode="SameStep")
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    counted.reset(seed=5)
    click = solved(envs)[0]
    _, rewards, terminated, _, infos = counted.step([click, WAIT, click])
    assert (rewards.tolist(), terminated.tolist()) == ([1.0, 0.0, 1.0], [True, False, True])
    assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True, False, True]
    assert infos["final_obs"][0]["last_action"] == '{"action": "click", "id": 1}'
    assert infos["final_obs"][1] is None
    assert infos["final_info"]["outcome"].tolist() == ["solved", None, "solved"]
    assert infos["final_info"]["seed"].tolist() == [5, 0, 7]
    assert infos["outcome"].tolist() == ["running"] * 3
    assert infos["seed"][1] == 6
    assert infos["seed"][0] not in (5, 6, 7)
    assert infos["episode"]["r"].tolist() == [1.0, 0.0, 1.0]
    _, rewards, _, _, infos = counted.step(solved(envs))  # the new episodes are played at once
    assert rewards.tolist() == [1.0] * 3
    assert infos["episode"]["l"].tolist() == [1, 2, 1]
    envs.close()


def test_without_autoreset_a_mask_says_what_is_reset():
    envs = gymnasium.make_vec("MiniWoB/click-test-v0", num_envs=2, screenshot=False, autoreset_mode="Disabled")
    first = {"reset_mask": np.array([True, False])}
    with pytest.raises(ValueError, match="first reset takes no reset_mask"):
        envs.reset(options=first)
    envs.reset(seed=5)
    _, rewards, terminated, *_ = envs.step([solved(envs)[0], WAIT])
    assert (rewards.tolist(), terminated.tolist()) == ([1.0, 0.0], [True, False])
    obs, rewards, terminated, *_ = envs.step([{"action": "click", "id": 1}, WAIT])
    assert (rewards.tolist(), terminated.tolist()) == ([0.0, 0.0], [True, False])
    assert "has ended" in obs["last_error"][0]
    obs, infos = envs.reset(seed=8, options=first)
    assert first.keys() == {"reset_mask"}
    assert (infos["_seed"].tolist(), infos["seed"][0]) == ([True, False], 8)
    assert [bool(action) for action in obs["last_action"]] == [False, True]
    assert envs.step(solved(envs))[1].tolist() == [1.0, 1.0]
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    envs.reset(options={"reset_mask": np.array([True, True])})
    for mask, error in (([True, False], TypeError), (np.zeros(2, bool), ValueError), (np.ones(3, bool), ValueError)):
        with pytest.raises(error, match="reset_mask"):
            envs.reset(options={"reset_mask": mask})
    envs.close()


@pytest.mark.slow
def test_all_environments_share_the_seeds_in_every_mode():
    for mode in ("NextStep", "SameStep"):
        envs = gymnasium.make_vec(
            "MiniWoB/click-test-v0", num_envs=2, screenshot=False, autoreset_mode=mode, seeds=range(50, 54)
        )
        _, infos = envs.reset()
        assert infos["seed"].tolist() == [50, 51]
        *_, infos = envs.step([WAIT, solved(envs)[1]])
        if mode == "NextStep":
            *_, infos = envs.step([WAIT, WAIT])
        assert infos["seed"].tolist() == [50, 52]
        _, infos = envs.reset(seed=np.int64(0))
        assert infos["seed"].tolist() == [50, 51]
        envs.close()


def test_several_tasks_in_one():
    ids = ["MiniWoB/click-test-v0", "MiniWoB/click-option-v0"]
    envs = gymnasium.make_vec("Browser-v0", num_envs=3, tasks=[ids[0], MiniWobTask("click-option")])
    obs, _ = envs.reset(seed=[1, 2, 3])
    assert [task.id for task in envs.unwrapped.tasks] == [ids[0], ids[1], ids[0]]
    assert [core.max_steps for core in envs.unwrapped.cores] == [10] * 3
    single = gymnasium.make(ids[1])
    assert single.reset(seed=2)[0]["dom"] == obs["dom"][1]
    single.close()
    assert envs.step(solved(envs))[1].tolist() == [1.0, 0.0, 1.0]
    envs.close()


def test_tasks_that_do_not_go_together():
    with pytest.raises(ValueError, match="at most num_envs=1, not 2 tasks"):
        gymnasium.make_vec("Browser-v0", tasks=[Task(), Task()])
    with pytest.raises(ValueError, match="not both"):
        gymnasium.make_vec("MiniWoB/click-test-v0", num_envs=2, tasks=[Task(), Task()])
    mixed = ["MiniWoB/click-test-v0", Task(start_url="about:blank")]
    with pytest.raises(ValueError, match="different sizes"):
        VectorBrowserEnv(2, tasks=mixed)
    VectorBrowserEnv(2, tasks=mixed, viewport=(332, 214))
    VectorBrowserEnv(2, tasks=mixed, screenshot=False)


def test_what_a_reset_opens_after_a_close_is_closed_again():
    envs = VectorBrowserEnv(2, start_url="data:text/html,x", screenshot=False)
    envs.reset(seed=0)
    envs.close()
    before = counts()
    envs.reset(seed=0)
    envs.close()
    assert counts() == before


class Odd(Task):
    """Scores with numbers of another kind for each seed, beside an open page."""

    kinds = (0, 0.5, {"name": ""}, None, (1, 2), np.array([3]))

    async def score(self, page, episode):
        return Score(details={"all": self.kinds[episode.seed], f"only {episode.seed}": "here"})


def test_a_score_of_each_kind_stays_as_it_is():
    count = len(Odd.kinds)
    envs = VectorBrowserEnv(count, task=Odd(), screenshot=False, autoreset_mode="SameStep")
    envs.reset(seed=0)
    *_, infos = envs.step([{"action": "finish"}, *[WAIT] * (count - 1)])
    assert infos["score"]["_all"].tolist() == [False] + [True] * (count - 1)
    assert infos["final_info"]["score"]["all"].tolist() == [0] + [None] * (count - 1)
    assert infos["score"]["all"].tolist()[1:] == list(Odd.kinds[1:])
    assert (infos["score"]["only 2"][2], infos["score"]["_only 2"].tolist()) == (
        "here",
        [False, False, True] + [False] * 3,
    )
    envs.close()


class Slow(Task):
    """Takes its time to begin."""

    begun = 0

    async def setup(self, page, rng):
        await asyncio.sleep(1)
        Slow.begun += 1
        return ""


class Broken(Task):
    """Can't begin."""

    async def setup(self, page, rng):
        raise ValueError("no")


def test_a_reset_in_which_one_fails_has_ended_when_it_says_so():
    envs = VectorBrowserEnv(2, tasks=[Slow(), Broken()], screenshot=False)
    before = counts()["contexts"]
    for number in (1, 2):
        with pytest.raises(EnvError, match="no"):
            envs.reset(seed=0)
        assert Slow.begun == number
        assert counts()["contexts"] == before + 1
    envs.close()
    assert counts()["contexts"] == before


def test_a_vector_environment_pickles():
    envs = pickle.loads(pickle.dumps(gymnasium.make_vec("MiniWoB/click-test-v0", num_envs=2, screenshot=False)))
    envs.reset(seed=0)
    assert envs.spec.id == "MiniWoB/click-test-v0"
    assert envs.step(solved(envs))[1].tolist() == [1.0, 1.0]
    envs.close()


def test_environments_of_one_task_each_judge_by_their_own_episode():
    envs = gymnasium.make_vec(
        "Browser-v0", 2, vectorization_mode="sync", task=scenario("login"), screenshot=False, max_episode_steps=9
    )
    envs.reset(seed=[0, 1])
    each = [env.unwrapped for env in envs.envs]
    assert each[0].task is not each[1].task
    answers = [Finish(answer=str(env.task.points)) for env in each]
    assert answers[0] != answers[1]
    outcomes = [env.step(answer)[4]["outcome"] for env, answer in zip(each, answers, strict=True)]
    assert len(set(outcomes)) == 1
    envs.close()


def test_a_step_limit_is_one_as_gymnasium_has_it():
    envs = VectorBrowserEnv(1, task=MiniWobTask("click-option"), screenshot=False, max_episode_steps=-1)
    envs.reset(seed=0)
    for _ in range(12):
        *_, truncated, infos = envs.step([WAIT])
        assert (truncated[0], infos["outcome"][0]) == (False, "running")
    envs.close()
    with pytest.raises(ValueError, match="max_episode_steps must be at least 1, or -1 for no limit, not 0"):
        VectorBrowserEnv(1, task=MiniWobTask("click-option"), max_episode_steps=0)


def test_what_a_failed_reset_has_opened_is_closed(monkeypatch):
    envs = VectorBrowserEnv(2, task=MiniWobTask("click-test"), screenshot=False)
    envs.reset(seed=0)
    envs.close()

    async def fail(rng):
        raise BrowserNotFound("There is none.")

    monkeypatch.setattr(envs.cores[1], "_fresh_session", fail)
    with pytest.raises(BrowserNotFound):
        envs.reset(seed=0)
    assert envs.cores[0].session is not None
    envs.close()
    assert envs.cores[0].session is None


def test_a_browser_that_is_gone_at_an_autoreset_is_told():
    envs = VectorBrowserEnv(1, task=MiniWobTask("click-test"), screenshot=False)
    envs.reset(seed=0)
    (told,) = envs.privileged()
    envs.step([told["action"]])

    async def fail(rng):
        raise BrowserNotFound("There is none.")

    envs.cores[0]._fresh_session = fail
    *_, truncated, infos = envs.step([WAIT])
    assert (truncated[0], infos["outcome"][0], infos["outcome_detail"][0]) == (True, "env_error", "There is none.")
    envs.close()
