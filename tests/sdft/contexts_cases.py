"""Episodes of a student that does what it is told, on real pages."""

from urllib.parse import quote

from selfsurf.agents.agent import Decision
from selfsurf.agents.policy import Completion, Message
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env.actions import parse_action
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.envs_registry import open_id, task_of
from selfsurf.sdft.rollouts import Job, Result, Step

FORM = """<title>Order</title><label>Name <input></label> <label>City <input></label>
<button onclick="document.body.innerHTML = '<h1>Sent</h1><a href=#>Home</a>'">Send</button>"""
NEWS = "<a href=#1>News</a> <a href=#2>Offers</a> <button>Menu</button> "
GOAL = "Order as Ada of Oslo."


def open_task(html, goal=GOAL):
    return open_id(f"data:text/html,{quote(html)}", goal)


def step_of(observation, action, *, after=None, privileged=None, reward=0.0, shown=None):
    """A step with this action, or with a reply that was none."""
    readable = not isinstance(action, str)
    done = parse_action(action) if readable else action
    completion = Completion(compact(done) if readable else action, [1, 2], [3], [0.0], None, "eos", [2])
    ids = frozenset(element["id"] for element in observation["elements"]) if shown is None else frozenset(shown)
    messages = (Message("user", f"Goal: {observation['goal']}\n\nPage:\n{observation['dom']}"),)
    decision = Decision(done, completion, messages, ids, "json", "" if readable else "That is no action.")
    after = {**observation, "last_error": ""} if after is None else after
    return Step(observation, decision, privileged, reward, {}, after)


def played(env_id, choose, *, seed=0, steps=1):
    """Run an episode in which `choose(observation, privileged)` acts, for so many steps or until it ends."""
    env = AsyncBrowserEnv(task=task_of(env_id), screenshot=False)
    try:
        observation, info = runtime().run(env.reset(seed=seed))
        result = Result(Job(env_id, seed), info["outcome"], trainable=True)
        for _ in range(steps):
            view = env.privileged()
            action = choose(observation, view)
            after, reward, ended, cut, info = runtime().run(env.step(action))
            result.steps.append(step_of(observation, action, after=after, privileged=view, reward=reward))
            observation = after
            if ended or cut:
                break
        result.outcome, result.trainable = info["outcome"], info["trainable"]
        return result
    finally:
        runtime().run(env.close())


def named(observation, name):
    """The id of the element with this name."""
    (found,) = [element["id"] for element in observation["elements"] if element["name"] == name]
    return found


def in_turn(*moves):
    """Acts in this order: `("fill", "Name", "Ada")`, `("click", "Send")`, or anything that `step` takes."""
    left = list(moves)

    def choose(observation, _):
        move = left.pop(0)
        if not isinstance(move, tuple):
            return move
        kind, name, *text = move
        return {"action": kind, "id": named(observation, name), **({"text": text[0]} if text else {})}

    return choose


def oracle(observation, privileged):
    return privileged["action"]


ORDER = (("fill", "Name", "Ada"), ("fill", "City", "Oslo"), ("click", "Send"), {"action": "finish", "answer": "done"})
