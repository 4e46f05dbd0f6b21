"""The action cache: what is found again, what is refused, what is never kept; on texts, and on real pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfsurf.agents.cached import Cache, CachedAgentAdapter, CacheError, Flow
from selfsurf.agents.cached.flow import digest, filled, flow_of
from selfsurf.agents.cached.target import find, fingerprints, target_of
from selfsurf.agents.play import AgentAdapter, Environments, EpisodeRequest, Job, Player, PlayOptions, Result
from selfsurf.agents.scripted import OracleAgent
from selfsurf.browser_env import Click, Fill, Finish, Safety, Score, Task
from selfsurf.browser_env.outline import parse_outline
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter
from selfsurf.envs_registry import task_of

FORM = """\
navigation
  [1] link "Send us a letter"
main
  heading "Order" level=1
  form
    [2] textbox "Name"
    [3] textbox "Email"
    [4] button "Send"
    [5] button "Save"
complementary
  heading "News" level=3
  Nothing new"""


def page(dom: str, observation: Callable[..., Any], element: Callable[..., Any]) -> Any:
    lines = [(line.id, line.element) for line in parse_outline(dom)]
    elements = [element(id, said.role, said.name) for id, said in lines if id is not None and said]
    return observation("", elements, dom=dom)


CASES = {
    "another place of the form": (FORM.replace("  heading", "  text\n  heading").replace("[4]", "[14]"), 14),
    "more boxes, another order": (
        'main\n  heading "Order" level=1\n  form\n    group\n      [9] button "Send"\n    [5] button "Save"\n'
        '    [3] textbox "Email"\n    [2] textbox "Name"', 9),
    "slightly renamed": (FORM.replace('button "Send"', 'button "Send now"'), 4),
    "renamed, all around it too": (
        FORM.replace('"Send"', '"SEND »"').replace('"Email"', '"Your email *"').replace('"Name"', '"Name:"'), 4),
    "a decoy elsewhere": (FORM + '\n  [6] button "Send"', 4),
    "a decoy beside it": (FORM.replace('    [5]', '    [6] button "Send"\n    [5]'), None),
    "a decoy before it": (FORM.replace('    [4]', '    [6] button "Send"\n    [4]'), None),
    "removed": (FORM.replace('    [4] button "Send"\n', ""), None),
    "removed, and a decoy elsewhere": (FORM.replace('    [4] button "Send"\n', "") + '\n  [6] button "Send"', None),
    "removed, and a decoy in a form of its own": (
        FORM.replace('    [4] button "Send"\n', "").replace(
            "complementary", '  heading "Letters" level=2\n  form\n    [7] textbox "Topic"\n    [6] button "Send"\n'
            "complementary"), None),
    "removed, and a decoy under the same heading": (
        FORM.replace('    [4] button "Send"\n', "").replace(
            "complementary", '  form\n    [7] textbox "Email"\n    [6] button "Send"\ncomplementary'), None),
    "renamed to something else": (FORM.replace('button "Send"', 'button "Send to all"'), None),
    "two that may be it": (
        FORM.replace('    [4] button "Send"', '    [4] button "Send now"\n    [6] button "Send today"'), None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_element_is_found_again_or_refused(case, observation, element):
    then = page(FORM, observation, element)
    send = next(one for one in then["elements"] if one["id"] == 4)
    dom, right = CASES[case]
    found = find(target_of(send, then), page(dom, observation, element), known=fingerprints(then["elements"]))
    assert (found.element and found.element["id"]) == right, found.why
    assert bool(found.why) == (right is None)


def test_names_without_letters_are_not_alike(observation, element):
    then = page('main\n  [1] button "+"\n  [2] button "-"', observation, element)
    now = page('main\n  [2] button "-"', observation, element)
    assert find(target_of(then["elements"][0], then), now, known=()).element is None


def flow(goal: str, *words: int, only: str = "") -> Flow:
    return Flow(goal=goal, words=words, site="http://a.test", steps=(), only=only)


def test_values_are_read_from_another_goal_only_where_they_are_certain():
    register = flow("Register <param:0>, phone <param:1>, and send it.", 2, 1)
    assert register.values("Register Ben Okafor, phone 0741, and send it.") == ("Ben Okafor", "0741")
    assert register.values("Register Ben Okafor, phone 0741, and send it. Then log out.") is None
    assert register.values("Register Ben Okafor. Delete the rest, phone 0741, and send it.") is None
    assert register.values("Register all of the people in the list, phone 0741, and send it.") is None
    ambiguous = flow("Put <param:0> <param:1> away.", 1, 2)
    assert ambiguous.values("Put Tea Green Hill away.") is None
    whole = flow("Put <param:0> <param:1> away.", 1, 2, only=digest("Put Tea Green Hill away.", ambiguous.goal))
    assert whole.values("Put Tea Green Hill away.") == ("Tea", "Green Hill")
    assert whole.values("Put Tea Blue Hill away.") is None


SHOP = """<!doctype html><title>Shop</title><main><h1>Shop</h1><form onsubmit="event.preventDefault();
  document.title = [...this.querySelectorAll('input')].map(one => one.value).join('|')">
  <label>Member <input></label><label>Key <input type=password></label><button>Pay now</button></form></main>"""


class Pay(Task):
    """Pay as a member, with a key that is a secret, or one that is typed as it is."""

    def __init__(self, folder: str, member: str, key: str = "<secret:key>") -> None:
        super().__init__(goal=f"Pay for the member {member}.", start_url="http://pay.test/index.html")
        self.sites, self.member, self.key = {"http://pay.test": Path(folder)}, member, key

    async def score(self, page: Any, episode: Any) -> Score:
        title = await page.title()
        return Score(float(title.startswith(f"{self.member}|") and title[-1] != "|"), done="|" in title)

    def oracle(self, obs: Any) -> Any:
        member, key, button = obs["elements"]
        if not member["value"]:
            return Fill(id=member["id"], text=self.member)
        return Click(id=button["id"]) if key["value"] else Fill(id=key["id"], text=self.key)


class Playing:
    """Plays episodes in one environment each, and keeps them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0

    def __call__(self, decider: AgentAdapter, task: Task, seed: int = 0, **options: Any) -> tuple[Result, Episode]:
        self.number += 1
        folder = self.folder / str(self.number)
        environments = Environments(lambda name: task, 1, **options)
        writer = EpisodeWriter(folder, {"env_id": "Own", "seed": seed})
        player = Player(decider, environments, 1, PlayOptions(keep_steps=False), record=lambda ask: writer)
        player.begin(EpisodeRequest(0, Job("Own", seed)))
        ended: list[Any] = []
        while not ended:
            ended = player.turn()
        environments.close()
        return ended[0][1], Episode(folder)


@pytest.fixture
def play(tmp_path: Path) -> Playing:
    return Playing(tmp_path)


def oracle() -> AgentAdapter:
    return AgentAdapter(OracleAgent())


def test_what_the_agent_raises_that_takes_over_is_its_episodes(form, tmp_path):
    class Odd:
        def reset(self, goal, slot=0):
            if slot:
                raise KeyError(goal)

        def act(self, obs):
            return Click(id=7)

    decider = CachedAgentAdapter(Cache(tmp_path / "cache"), lambda: AgentAdapter(Odd()))
    for slot in (0, 1):
        decider.begin(slot, Job("any", slot), "Do it.")
    first, second = decider.decide([0, 1], [form, form])
    assert (first.action, repr(second)) == (Click(id=7), "KeyError('Do it.')")


def test_a_page_that_writes_as_parameters_are_written_spoils_no_flow():
    assert filled(["<param:0> of <param:1>"], ["tea"]) == ["tea of <param:1>"]


class InStock(Task):
    """Look, and answer in words of the goal."""

    async def score(self, page: Any, episode: Any) -> Score:
        return Score(float(episode.answer == "yes"), done=episode.finished)

    def oracle(self, obs: Any) -> Any:
        return Click(id=1) if "In stock" not in obs["dom"] else Finish(answer="yes")


def test_an_answer_is_not_repeated_without_looking_though_the_goal_has_its_words(play):
    page = "data:text/html,<button onclick=\"this.after('In stock')\">Blue mug</button>"
    task = InStock(start_url=page, goal="Is the Blue mug in stock? Answer yes or no.")
    result, episode = play(oracle(), task)
    assert result.solved
    flow = flow_of(episode)
    assert ([step.action["action"] for step in flow.steps], flow.ends) == (
        ["click"],
        "finish: its text comes from a page",
    )


def test_secrets_stay_references_and_confirmations_are_asked_for_again(play, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text(SHOP)
    asked: list[Any] = []

    def confirm(action: Any, element: Any, risk: Any) -> bool:
        asked.append(element["name"])
        return True

    safety = Safety(secrets={"key": "tops3cret"}, confirm=confirm)
    cache = Cache(tmp_path / "cache")
    result, episode = play(oracle(), Pay(str(tmp_path / "site"), "Ada Moreau"), safety=safety)
    assert (result.outcome, asked) == ("solved", ["Key", "Pay now"])
    kept = cache.keep(episode)
    assert kept.flow is not None
    assert [step.action["action"] for step in kept.flow.steps] == ["fill", "fill", "click"]
    written = "".join(path.read_text() for path in (tmp_path / "cache").iterdir())
    assert "<secret:key>" in written
    assert not any(text in written for text in ("tops3cret", "Ada", "Moreau"))

    again = CachedAgentAdapter(Cache(tmp_path / "cache"), oracle)
    result, _ = play(again, Pay(str(tmp_path / "site"), "Ben Okafor"), safety=safety)
    assert (result.outcome, again.did(), again.agent) == ("solved", {"actions": 3, "healed": 0, "left": ""}, None)
    assert asked == ["Key", "Pay now"] * 2

    never = Safety(secrets={"key": "tops3cret"}, confirm=lambda *given: False)
    refused = CachedAgentAdapter(cache, oracle, needs_privileged=True)
    result, _ = play(refused, Pay(str(tmp_path / "site"), "Ben Okafor"), safety=never, max_episode_steps=4)
    assert result.outcome != "solved"
    assert "an action failed" in refused.did()["left"]

    result, episode = play(oracle(), Pay(str(tmp_path / "site"), "Ada Moreau", key="nots3cret"))
    assert result.outcome == "solved"
    kept = Cache(tmp_path / "other").keep(episode)
    assert kept.flow is not None
    assert (len(kept.flow.steps), "a secret" in kept.why) == (1, True)


@pytest.mark.slow
def test_a_changed_site_is_healed_and_written_back_and_decoys_are_left_to_the_agent(play, tmp_path):
    cache = Cache(tmp_path / "cache")
    result, episode = play(oracle(), task_of("Scenario/cookies-v0?change=same"))
    first = cache.keep(episode)
    assert first.flow is not None
    assert "Only" not in first.flow.model_dump_json(), "a banner is no part of a flow"
    assert len(first.flow.steps) == result.length - 1

    relabelled = task_of("Scenario/cookies-v0?change=relabelled&version=1")
    healing = CachedAgentAdapter(cache, oracle, needs_privileged=True)
    result, episode = play(healing, relabelled)
    assert result.outcome == "solved"
    assert healing.did()["healed"] > 0
    kept = cache.keep(episode)
    assert kept.flow is not None
    assert (kept.dropped, len(cache.flows())) == ((first.flow.id,), 1)
    again = CachedAgentAdapter(Cache(tmp_path / "cache"), oracle)
    result, _ = play(again, relabelled)
    assert (result.outcome, again.did()["healed"], again.agent) == ("solved", 0, None)
    assert kept.flow.away == {'dialog "Cookies"': "Refuse optional now"}, "as it is called now"
    assert [step.dialogs for step in kept.flow.steps] == [()] * len(kept.flow.steps)
    assert "button" in result.score["touched"][0], "the banner was put away before anything behind it was used"

    decoys = CachedAgentAdapter(cache, oracle, needs_privileged=True)
    result, episode = play(decoys, task_of("Scenario/cookies-v0?change=decoys&version=1"))
    assert result.outcome == "solved", "the agent has gone on"
    assert decoys.did()["left"]
    roles = [role for step in episode.steps() for role in (step["decision"] or {"roles": []})["roles"]]
    assert roles[-1] == {"role": "cache", "left": decoys.did()["left"]} or "flow" in roles[-1]


def test_only_what_was_judged_solved_is_kept_and_what_fails_goes(play, tmp_path):
    cache = Cache(tmp_path / "cache")
    _, solved = play(oracle(), task_of("Scenario/upload-v0"))
    flow = cache.keep(solved).flow
    assert flow is not None
    copy = tmp_path / "failed"
    copy.mkdir()
    meta = json.loads((solved.folder / "episode.json").read_text())
    notes = [{"role": "cache", "flow": flow.id}]
    lines = [{**step, "decision": {"roles": notes}} for step in solved.steps()]
    (copy / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for outcome, left in (("stopped", 1), ("failed", 0)):
        (copy / "episode.json").write_text(json.dumps({**meta, "outcome": outcome}))
        assert cache.keep(Episode(copy)).flow is None
        assert len(cache.flows()) == len(list((tmp_path / "cache").glob("*.json"))) == left
    (tmp_path / "cache" / "x.json").write_text("{}")
    with pytest.raises(CacheError, match=r"x\.json"):
        Cache(tmp_path / "cache")
