"""The player and people: one episode waits for an answer, others go on, and nobody's time is counted against it."""

import re
import time

import pytest

from selfsurf.agents.play import AgentAdapter, Environments, EpisodeRequest, Job, Player, PlayerCallbacks, PlayOptions
from selfsurf.agents.play.resume_point import AllowedAction, ResumePoint
from selfsurf.browser_env import Click, Finish, Safety, Task, parse_action
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter
from selfsurf.browser_env.record.journal import Journal, read_journal
from selfsurf.browser_env.task import EpisodeProgress
from tests.few import few

PAGE = "data:text/html,<title>index</title><button onclick=\"document.title='gone'\">Delete account</button><p>Text"
ASK, PLAIN = Job("ask", 0), Job("plain", 0)


class Agent:
    """Asks and deletes for the one goal, finishes at once for the other."""

    def __init__(self):
        self.calls = []

    def act_batch(self, observations, slots=None):
        self.calls.append(len(observations))
        return [self._act(obs) for obs in observations]

    def _act(self, obs):
        if obs["goal"] == "plain":
            return Finish(answer="done")
        said = [message["text"] for message in obs["messages"][1:] if message["role"] == "user"]
        if not said:
            return parse_action({"action": "ask_user", "question": "May I?"})
        if obs["title"] == "index":
            return Click(id=obs["elements"][0]["id"])
        return Finish(answer=said[0])


class Asked(PlayerCallbacks):
    def __init__(self):
        self.questions = []

    def waiting(self, ask, question):
        self.questions.append((ask, question["kind"]))


class Looks:
    """Finishes with what it is told, and remembers what was done before."""

    def __init__(self):
        self.followed = []

    def follow(self, obs, action, slot=0):
        self.followed.append(action.name)

    def act_batch(self, observations, slots=None):
        return [Finish(answer=f"{obs['title']}: {obs['last_error']}") for obs in observations]


@pytest.mark.parametrize(
    ("rows", "answer", "followed"),
    [
        (1, "gone: ", ["wait", "click"]),
        (2, "index: .* Several elements on the page match this action.", ["wait"]),
        (0, "index: .* There is no button named 'Delete account' here.", ["wait"]),
    ],
)
def test_what_was_allowed_is_done_on_the_same_element_of_the_page_now_or_not_at_all(rows, answer, followed):
    button = "<button onclick=\"document.title='gone'\">Delete account</button>"
    url, agent = f"data:text/html,<title>index</title>{button * rows}<p>Text", Looks()
    environments = Environments(
        lambda name: Task(start_url=url, goal=name), 1, user="later", safety=Safety(confirm="ask")
    )
    old = {"id": 7, "role": "button", "name": "Delete account", "bbox": (8, 8, 9, 9)}
    why = "The button 'Delete account' looks like one to delete or cancel something."
    cost = {"prompt_tokens": 100, "completion_tokens": 5, "cost": 0.5}
    sampled = [{"usage": cost}, {"usage": None}]
    past = {"observation": {"elements": []}, "actions": [{"action": "wait", "ms": 1}], "completions": sampled}
    confirmed = AllowedAction(Click(id=7), (old,), why, f"{why} The agent wants to click.", "yes")
    resume_point = ResumePoint(EpisodeProgress("ask", steps=1, address=url, first_id=8), (past,), confirmed)
    player = Player(AgentAdapter(agent), environments, 1, PlayOptions())
    try:
        result = player.play(EpisodeRequest(0, ASK), resume_point)
    finally:
        player.close()
        environments.close()
    assert re.match(answer, result.answer), result.answer
    assert (agent.followed, result.length) == (followed, len(followed) + 1)
    assert (result.prompt_tokens, result.completion_tokens, result.cost) == (100, 5, 0.5), "of before"


def test_the_time_that_a_function_takes_is_not_counted_and_its_answer_is_recorded(tmp_path):
    def user(question):
        time.sleep(1)
        return "Yes."

    environments = Environments(
        lambda name: Task(start_url=PAGE, goal=name), 1, user=user, safety=Safety(confirm=lambda *_: True)
    )
    player = Player(
        AgentAdapter(Agent()),
        environments,
        1,
        PlayOptions(),
        record=lambda ask: EpisodeWriter(tmp_path / "e", {"goal": "ask"}),
    )
    try:
        began = time.monotonic()
        result = player.play(EpisodeRequest(0, ASK))
        took = time.monotonic() - began
    finally:
        player.close()
        environments.close()
    assert max(result.seconds, result.env_seconds) < took - 0.9
    asked, deleted, _ = Episode(tmp_path / "e").steps()
    assert asked["questions"] == [{"question": "May I?", "answer": "Yes."}]
    assert (deleted["questions"], deleted["risk"]["confirmed"]) == ([], "by the user")


def test_one_waits_and_the_others_go_on(tmp_path):
    agent, watch = Agent(), Asked()
    environments = Environments(
        lambda name: Task(start_url=PAGE, goal=name), 2, user="later", safety=Safety(confirm="ask")
    )
    play_options = PlayOptions(episode_timeout=2.5)
    asking = EpisodeRequest(0, ASK)
    journal = Journal(tmp_path / "journal.jsonl")

    def record(ask):
        return EpisodeWriter(tmp_path / "e", {"goal": "ask"}, journal=journal) if ask is asking else None

    player = Player(AgentAdapter(agent), environments, 2, play_options, record=record, watch=watch)
    try:
        player.begin(asking)
        while not watch.questions:
            player.turn()
        assert not player.answer(EpisodeRequest(1, ASK), "Yes."), "another attempt waits for nothing"
        began, ended = time.monotonic(), []
        while len(ended) < 3:  # the agent is asked at once, although one more episode is under way
            if player.has_room:
                player.begin(EpisodeRequest(2 + len(ended), PLAIN))
            ended += player.turn()
        assert {result.answer for _, result in ended} == {"done"}
        time.sleep(max(0.0, began + 0.5 - time.monotonic()))
        assert player.answer(asking, "Yes.")
        assert not player.answer(asking, "Yes."), "it waits no more"
        while len(watch.questions) < 2:
            player.turn()
        time.sleep(2.2)
        assert player.answer(asking, "yes")
        ended = []
        while not ended:
            ended = player.turn()
    finally:
        player.close()
        environments.close()
    ((_, result),) = ended
    assert (result.outcome, result.answer, result.length) == ("stopped", "Yes.", 3)
    assert result.seconds < 2.5, "people's time is not counted"
    assert [kind for _, kind in watch.questions] == ["question", "confirmation"]
    assert [[each["answer"] for each in step.asked] for step in result.steps] == [["Yes."], ["yes"], []]
    asked, deleted, finished = Episode(tmp_path / "e").steps()
    assert asked["questions"] == [{"question": "May I?", "answer": "Yes."}]
    assert (deleted["questions"][0]["answer"], deleted["risk"]["kind"], deleted["error"]) == ("yes", "delete", "")
    assert finished["observation"]["title"] == "gone"
    events = [(line["step"], line["event"]) for line in read_journal(tmp_path / "journal.jsonl")]
    assert events == [(0, "at"), (0, "intent"), (1, "at"), (1, "intent"), (2, "at"), (2, "intent"), (3, "at")]


@pytest.mark.parametrize(("share", "outcome"), few(1, [(1.0, "env_error"), (0.125, "stopped")]))
def test_an_agent_has_more_time_where_others_crowd_the_machine(monkeypatch, share, outcome):
    class Slow(Agent):
        def act_batch(self, observations, slots=None):
            time.sleep(2)  # with the model, while other episodes are played
            return super().act_batch(observations, slots)

    monkeypatch.setattr("selfsurf.agents.play.player.cpu_share", lambda: share)
    environments = Environments(lambda name: Task(start_url=PAGE, goal="ask"), 1, user=lambda question: "Yes.")
    player = Player(AgentAdapter(Slow()), environments, 1, PlayOptions(episode_timeout=1.5))
    try:
        result = player.play(EpisodeRequest(0, ASK))
    finally:
        player.close()
        environments.close()
    assert result.outcome == outcome, result.detail
