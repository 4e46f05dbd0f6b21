"""What an episode teaches in hindsight: where something went wrong on a page, what worked there later."""

import pytest
from pydantic import ValidationError

from selfsurf.agents.scripted import ScriptedAgent
from selfsurf.browser_env import parse_action
from selfsurf.browser_env.record.episode import EpisodeError
from selfsurf.browser_env.record.verdict import Mark, mark_episode
from selfsurf.envs_registry import open_id
from selfsurf.sdft import TrainSettings, train
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.hindsight import Try, beside, in_hindsight
from selfsurf.sdft.rows.jobs import learned_offline, offline_states
from selfsurf.sdft.rows.stored import done_well, load_stored, recordings_of

SHOP = "data:text/html,<button>Idle</button><button onclick=\"document.body.innerHTML='<button>Pay</button>'\">Buy</button>"
DONE = [
    {"action": "click", "id": 1},
    {"action": "wait"},
    {"action": "click", "id": 2},
    {"action": "finish", "answer": ""},
]


def tries(*steps):
    """From a page, an action and whether it failed."""
    return [
        Try({"url": "x", "dom": page, "tabs": [{}]}, one if one == "?" else parse_action(one), failed)
        for page, one, failed in steps
    ]


def click(number):
    return {"action": "click", "id": number}


def test_what_worked_on_the_same_page_later_is_what_should_have_been_done():
    found = in_hindsight(
        tries(
            ("a", click(1), True), ("a focused", "?", True), ("a", {"action": "wait"}, False), ("a", click(2), False),
            ("b", click(3), False), ("c", click(4), True), ("c", click(5), False),
        )
    )  # fmt: skip
    assert {index: one.id for index, one in found.later.items()} == {0: 2, 1: 2}
    assert found.worked == {3, 4}, "what the last one led to is not known"


@pytest.mark.parametrize(
    "steps",
    [
        [("a", click(1), False), ("a", click(1), False), ("b", click(2), False)],  # the same, which worked in the end
        [("a", click(1), True), ("a", {"action": "wait"}, False), ("b", click(2), False)],  # the page changed by itself
        [("a", click(1), True), ("a", click(2), True), ("b", click(2), False)],
        [("a", click(1), True), ("b", click(2), False)],  # another page
        [("a", click(1), True), ("a", click(2), False)],  # the end
        [],
    ],
)
def test_where_nothing_else_worked_nothing_is_told(steps):
    assert not in_hindsight(tries(*steps)).later


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """An episode that presses the wrong button, then the right one, and is not solved."""
    folder = tmp_path_factory.mktemp("failed")
    with Rollouts(1) as rollouts:
        rollouts.run(ScriptedAgent(DONE), [Job(open_id(SHOP, "Buy it"), 0)], folder=folder)
    (episode,) = folder.iterdir()
    mark_episode(episode, Mark("failed", "person", "it was not paid"))
    return folder


def test_a_failed_episode_teaches_in_hindsight_alone(failed, tiny_policy, tmp_path):
    with pytest.raises(EpisodeError, match="nothing to learn"):
        load_stored([failed])
    given = learned_offline([failed], hindsight=True)
    small = {"steps": 2, "episodes_per_step": 2, "max_rows": 2, "lora_rank": 4, "least_first_divergence": 0.0}
    settings = TrainSettings(**{**given, **small, "contexts": ("demonstration", "hindsight"), "evaluate_every": 0})
    (state,), held = offline_states(settings)
    assert (state.index, state.shown, held) == (0, parse_action(click(2)), [])
    assert [one.index for one in done_well([state.episode], ("click", "wait"))] == [2], "what worked is to be kept"
    summary = train(settings, tmp_path / "run", policy=tiny_policy)
    assert summary["recorded"]["of"] == 1


def test_hindsight_offline_takes_no_episodes_from_elsewhere(failed):
    contexts = ("demonstration", "hindsight")
    with pytest.raises(ValidationError, match="leave out hindsight_episodes"):
        TrainSettings(episodes=(str(failed),), contexts=contexts, hindsight_episodes=("x",))
    with pytest.raises(ValidationError, match="offline the teacher is shown recorded actions"):
        TrainSettings(episodes=(str(failed),), contexts=("hindsight",))


def test_beside_a_run_that_reached_the_goal_what_it_did_on_the_same_page_counts():
    solved = tries(("a", click(2), False), ("b", click(3), False))
    failed = tries(("a", click(1), False), ("b focused", click(3), False), ("c", click(4), False), ("b", "?", True))
    found = beside(failed, solved)
    assert {index: one.id for index, one in found.later.items()} == {0: 2, 3: 3}
    assert found.worked == {1}, "nothing is known of the page that the other did not see"


def test_a_solved_run_is_shown_as_it_went_without_its_mistakes(tmp_path):
    fields = "data:text/html,<input aria-label=First><input aria-label=Last><button>Idle</button>"
    first, last = ({"action": "fill", "id": number, "text": text} for number, text in ((1, "Ada"), (2, "Lee")))
    end = {"action": "finish"}
    for name, actions in (("a", [first, click(3), last, end]), ("b", [last, first, end])):
        with Rollouts(1) as rollouts:
            rollouts.run(ScriptedAgent(actions), [Job(open_id(fields, "Send it"), 0)], folder=tmp_path / name)
    for episode in (path.parent for path in tmp_path.rglob("episode.json")):
        mark_episode(episode, Mark("solved", "person", ""))
    episodes = load_stored([tmp_path / "a", tmp_path / "b"], hindsight=True).episodes
    shown = [[step.action.to_dict() for step in one.steps] for one in recordings_of(episodes)]
    assert shown == [[first, last, end], [last, first, end]], "each in its own order"


def test_a_failed_run_learns_from_a_later_one_of_the_same_task_and_seed(tmp_path):
    wrong = [{"action": "click", "id": 1}, {"action": "click", "id": 1}, {"action": "finish", "answer": ""}]
    with Rollouts(1) as rollouts:
        for name, actions, seed in (("wrong", wrong, 0), ("right", DONE[2:], 0), ("other", wrong, 1)):
            rollouts.run(ScriptedAgent(actions), [Job(open_id(SHOP, "Buy it"), seed)], folder=tmp_path / name)
    for episode in (path.parent for path in tmp_path.rglob("episode.json")):
        mark_episode(episode, Mark("solved" if "right" in str(episode) else "failed", "person", ""))
    failed, solved = load_stored([tmp_path / "wrong", tmp_path / "right"], hindsight=True).episodes
    assert failed.hindsight.later == dict.fromkeys(range(3), parse_action(click(2)))
    assert [len(one.steps) for one in recordings_of([failed, solved])] == [1, 2], "each step by itself, once"
    text = load_stored([tmp_path / "wrong", tmp_path / "right"], hindsight=True).text()
    assert "1 not solved, but with steps where another action worked later" in text
    assert "reward" not in text
    other, _ = load_stored([tmp_path / "other", tmp_path / "right"], hindsight=True).episodes
    assert not other.hindsight.later
