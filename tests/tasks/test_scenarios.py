"""The scenarios: their oracles solve them in 4 to 10 actions, and a seed changes what it should."""

import copy

import gymnasium
import pytest

from selfsurf.envs_registry import task_of
from selfsurf.tasks.scenarios import FLOWS, SITES, VARIED, names
from selfsurf.tasks.scenarios.clinic import DEPARTMENTS, REASONS
from selfsurf.tasks.scenarios.members import COUNTRIES, ROLES
from selfsurf.tasks.scenarios.trains import CLASSES, SEATS, STATIONS

SOME = [*list(FLOWS)[:2], *(pytest.param(flow, marks=pytest.mark.slow) for flow in list(FLOWS)[2:])]
SOME_SITES = [*list(SITES)[:2], *(pytest.param(site, marks=pytest.mark.slow) for site in list(SITES)[2:])]


def played(name, seed):
    """Let the oracle play; return the first observation, the kinds of its actions, and the last info."""
    env = gymnasium.make(f"Scenario/{name}-v0", screenshot=False)
    try:
        first, info = env.reset(seed=seed)
        done, kinds = False, []
        while not done:
            action = env.unwrapped.privileged()["action"]
            kinds.append(action["action"])
            _, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        return first, kinds, info
    finally:
        env.close()


def play(env, seed, mistake=None):
    """Let the oracle play an episode.

    Args:
        mistake: returns values that the oracle takes for wanted, from the wanted ones and what the page is started with.

    Returns:
        The goal, the number of steps, the last reward and the last info.
    """
    task = env.unwrapped.core.task
    shown = {}

    def draw(rng):
        goal, on_the_page = type(task).draw(task, rng)
        shown.update(on_the_page)
        return goal, on_the_page

    task.draw = draw
    observation, _ = env.reset(seed=seed)
    player = copy.copy(task)
    player.wanted = {**task.wanted, **(mistake(task.wanted, shown) if mistake else {})}
    done, steps = False, 0
    while not done:
        observation, reward, terminated, truncated, info = env.step(player.oracle(observation))
        done, steps = terminated or truncated, steps + 1
    return observation["goal"], steps, reward, info


def labels(observation):
    return sorted(one["name"] for one in observation["elements"])


@pytest.mark.parametrize("flow", SOME)
def test_a_seed_changes_what_the_flow_does_not_depend_on(flow):
    (one, kinds, info), (other, again, _) = (played(flow, seed) for seed in (0, 1))
    assert info["outcome"] == "solved", info
    assert 4 <= len(kinds) <= 10
    assert kinds == again
    assert one["goal"] == other["goal"]
    assert one["dom"] != other["dom"]


@pytest.mark.parametrize("flow", SOME)
def test_variations_have_other_values_and_labels(flow):
    (one, kinds, info), (other, again, more) = (played(flow + VARIED, seed) for seed in (0, 1))
    assert info["outcome"] == more["outcome"] == "solved"
    assert sorted(kinds) == sorted(again)
    assert one["goal"] != other["goal"]
    assert labels(one) != labels(other)


@pytest.mark.parametrize("site", SOME_SITES)
def test_the_oracle_solves_a_site_whose_goal_differs_from_seed_to_seed(site):
    env = gymnasium.make(f"Scenario/{site}-v0", screenshot=False)
    try:
        episodes = [play(env, seed) for seed in range(10)]
    finally:
        env.close()
    goals, lengths, rewards, infos = zip(*episodes, strict=True)
    assert [info["outcome"] for info in infos] == ["solved"] * 10
    assert rewards == (1.0,) * 10
    assert len({*goals}) == 10
    assert {*lengths} == {
        "hotel": {10}, "meeting": {8}, "nursery": {7}, "clinic": {9}, "members": {8}, "trains": {8, 9},
    }[site]  # fmt: skip


def another(options, *right):
    return next(each for each in options if each not in right)


def other_department(wanted, shown):
    doctors = dict(shown["departments"])
    name = another(DEPARTMENTS, wanted["department"])
    return {"department": name, "doctor": doctors[name][0]}


def namesake(wanted, shown):
    return next(
        {"city": each["city"]}
        for each in shown["members"]
        if each["name"] == wanted["name"] and each["city"] != wanted["city"]
    )


def other_member(wanted, shown):
    return next(
        {"name": each["name"], "city": each["city"]} for each in shown["members"] if each["name"] != wanted["name"]
    )


def other_hotel(wanted, shown):
    return {"hotel": next(
        another([each["name"] for each in city["hotels"]], wanted["hotel"])
        for city in shown["cities"] if wanted["hotel"] in [each["name"] for each in city["hotels"]]
    )}  # fmt: skip


MISTAKES = [
    ("hotel", "hotel", other_hotel),
    ("hotel", "room", lambda wanted, shown: {"room": another(shown["rooms"], wanted["room"])}),
    ("hotel", "date", lambda wanted, shown: {"date": another(["2027-05-06", "2027-06-05"], wanted["date"])}),
    ("meeting", "day", lambda wanted, shown: {"day": another(shown["days"], wanted["day"])}),
    ("meeting", "room", lambda wanted, shown: {"room": another([each["name"] for each in shown["rooms"]], wanted["room"])}),
    ("meeting", "length", lambda wanted, shown: {"length": another(shown["lengths"], wanted["length"])}),
    ("meeting", "equipment", lambda wanted, shown: {"equipment": another(shown["equipment"], wanted["equipment"])}),
    ("nursery", "plant", lambda wanted, shown: {"plant": another([each["name"] for each in shown["plants"]], wanted["plant"])}),
    ("nursery", "size", lambda wanted, shown: {"size": another(shown["sizes"], wanted["size"])}),
    ("nursery", "number", lambda wanted, shown: {"number": another("123456", wanted["number"])}),
    ("nursery", "delivery", lambda wanted, shown: {"slot": another(shown["slots"], wanted["slot"])}),
    ("clinic", "department", other_department),
    ("clinic", "doctor", lambda wanted, shown: {"doctor": another(dict(shown["departments"])[wanted["department"]], wanted["doctor"])}),
    ("clinic", "day", lambda wanted, shown: {"slot": another([day[0] for day in shown["slots"]], *day_of(wanted, shown))}),
    ("clinic", "time", lambda wanted, shown: {"slot": another(day_of(wanted, shown), wanted["slot"])}),
    ("clinic", "reason", lambda wanted, shown: {"reason": another(REASONS, wanted["reason"])}),
    ("members", "namesake", namesake),
    ("members", "member", other_member),
    ("members", "role", lambda wanted, shown: {"role": another(ROLES, wanted["role"])}),
    ("members", "country", lambda wanted, shown: {"country": another(COUNTRIES, wanted["country"])}),
    ("members", "phone", lambda wanted, shown: {"phone": "0700000"}),
    ("trains", "from", lambda wanted, shown: {"from": another(STATIONS, wanted["from"], wanted["to"])}),
    ("trains", "direction", lambda wanted, shown: {"from": wanted["to"], "to": wanted["from"]}),
    ("trains", "date", lambda wanted, shown: {"date": another(["2027-05-06", "2027-06-05"], wanted["date"])}),
    ("trains", "departure", lambda wanted, shown: {"departure": another([each["departure"] for each in shown["trains"]], wanted["departure"])}),
    ("trains", "class", lambda wanted, shown: {"class": another(CLASSES, wanted["class"])}),
    ("trains", "seat", lambda wanted, shown: {"seat": another(SEATS, wanted["seat"])}),
    ("trains", "bicycle", lambda wanted, shown: {"bicycle": not wanted["bicycle"]}),
]  # fmt: skip


def day_of(wanted, shown):
    """Return the free times of the wanted day."""
    return next(day for day in shown["slots"] if wanted["slot"] in day)


@pytest.mark.parametrize(
    ("site", "mistake"),
    [
        pytest.param(site, mistake, marks=pytest.mark.slow if name not in ("room", "reason", "role", "seat") else ())
        for site, name, mistake in MISTAKES
    ],
    ids=[f"{site}-{name}" for site, name, _ in MISTAKES],
)
def test_a_wrong_choice_on_a_site_fails_at_its_end(site, mistake):
    env = gymnasium.make(f"Scenario/{site}-v0", screenshot=False)
    try:
        _, steps, reward, info = play(env, 0, mistake)
    finally:
        env.close()
    assert (reward, info["outcome"]) == (0.0, "failed"), info
    assert info["score"]["done"] is not None
    assert steps >= 7, "the page takes every choice"


def test_removing_a_member_fails():
    env = gymnasium.make("Scenario/members-v0", screenshot=False)
    try:
        observation, _ = env.reset(seed=0)
        name = env.unwrapped.core.task.wanted["name"]
        while not (remove := [one["id"] for one in observation["elements"] if one["name"] == f"Remove {name}"]):
            observation, *_ = env.step(env.unwrapped.privileged()["action"])
        assert len(remove) == 2, "one of them is of the namesake"
        _, reward, terminated, _, info = env.step({"action": "click", "id": remove[0]})
    finally:
        env.close()
    assert (reward, terminated, info["outcome"]) == (0.0, True, "failed")
    assert info["score"]["done"]["removed"] == name


def test_what_is_sent_wrongly_is_missed():
    env = gymnasium.make("Scenario/register-v0", screenshot=False)
    try:
        observation, _ = env.reset(seed=0)
        send = next(one["id"] for one in observation["elements"] if one["name"] == "Send")
        _, reward, terminated, _, info = env.step({"action": "click", "id": send})
    finally:
        env.close()
    assert (reward, terminated, info["outcome"]) == (0.0, True, "failed")
    assert info["score"]["done"]["name"] == ""


def test_the_whole_title_does_not_find_what_is_on_a_later_page():
    env = gymnasium.make("Scenario/pages-v0", screenshot=False)
    try:
        env.reset(seed=0)
        task = env.unwrapped.core.task
        title = task.wanted["title"]
        observation, *_ = env.step({**env.unwrapped.privileged()["action"], "text": title})
        search = next(one["id"] for one in observation["elements"] if one["name"] == task.label["search"])
        observation, *_ = env.step({"action": "click", "id": search})
        assert title not in labels(observation)
        assert task.label["next"] in labels(observation)
    finally:
        env.close()


def test_a_tall_window_shows_more_of_the_list_that_is_to_be_scrolled():
    env = gymnasium.make("Scenario/scroll-v0", screenshot=False, viewport=(834, 1600))
    try:
        env.reset(seed=0)
        done = False
        while not done:
            *_, terminated, truncated, info = env.step(env.unwrapped.privileged()["action"])
            done = terminated or truncated
        assert info["outcome"] == "solved"
    finally:
        env.close()


def test_names():
    assert task_of("Scenario/order-varied-v0").varied
    assert {task_of(f"Scenario/{name}-v0").id for name in names()} <= gymnasium.registry.keys()
    with pytest.raises(ValueError, match="There is no task 'Scenario/nothing-v0'"):
        task_of("Scenario/nothing-v0")
