"""Training at recorded states: the prompts are those of the episode, the actions the student's own, no browser is there."""

import json
import shutil
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from selfsurf.agents.graph.agent import GraphAgent
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.roles import TaskExecutor
from selfsurf.agents.scripted import OracleAgent, ScriptedAgent
from selfsurf.browser_env import BrowserEnv
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.observe.delta import CHANGED
from selfsurf.browser_env.record.episode import Episode, EpisodeError, write_manifest
from selfsurf.browser_env.record.recorder import Recorder
from selfsurf.browser_env.record.verdict import Mark, mark_episode
from selfsurf.envs_registry import open_id
from selfsurf.scripts import cli
from selfsurf.sdft import GRPOSettings, TrainSettings, train, train_grpo, train_sft
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.measure.agreement import Agreement
from selfsurf.sdft.measure.heldout import check_heldout
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows import stored
from selfsurf.sdft.rows.demonstrator import Demonstrator
from selfsurf.sdft.rows.jobs import learned_offline, offline_states, training_jobs
from selfsurf.sdft.rows.stored import State, divide, load_stored, states_of
from selfsurf.sdft.rows.stored_states import StoredGenerator
from selfsurf.sdft.teacher.recording import load_recordings
from selfsurf.sdft.trainers import sdft
from tests.agents.said import Saying
from tests.models.small import small_llama
from tests.models.vision import idefics3

OPTION, TEXT, TEST = "MiniWoB/click-option-v0", "MiniWoB/enter-text-v0", "MiniWoB/click-test-2-v0"


def read(folder, images=False):
    """One episode, whether it teaches or not."""
    stored._stored.cache_clear()
    return stored._stored(folder, images, ())


@pytest.fixture(scope="module")
def played(tmp_path_factory, tokenizer):
    """Episodes of an agent with a random model: greedy, so that guards step in; and free, so that it can't be read."""
    folder = tmp_path_factory.mktemp("played")
    policy = TransformersPolicy(small_llama(tokenizer, tie_word_embeddings=True), tokenizer)
    agents = {
        "greedy": LLMAgent(policy, temperature=0.0, seed=0),
        "free": LLMAgent(policy, constrained=False, seed=0, max_new_tokens=8),
        "chat": LLMAgent(policy, prompt="chat", constrained=True, seed=0, max_new_tokens=24, max_prompt_tokens=1500),
    }
    for name, agent in agents.items():
        mode = "delta" if name == "greedy" else "full"
        with Rollouts(3, max_episode_steps=8, obs_mode=mode) as rollouts:
            jobs = [Job(OPTION, 1), Job(TEXT, 2)][: 1 if name == "chat" else 2]
            rollouts.run(agent, jobs, folder=folder / name)
    return folder, agents


def test_what_a_person_did_at_a_window_teaches(tmp_path, tiny_policy):
    page = "data:text/html,<label>Name <input></label><button onclick=\"document.title='sent'\">Send</button>"
    env = BrowserEnv(page, "Send it as Ada.", screenshot=False)
    recorder = Recorder(env, tmp_path / "recording")
    recorder.start(0)

    async def act(page):
        await page.get_by_label("Name").click()
        await page.keyboard.type("Ada")
        await page.get_by_text("Send").click()
        await page.wait_for_function("document.title == 'sent'")

    runtime().run(act(recorder.core.session.active.page))
    recorder.finish("solved")
    env.close()
    small = {"steps": 1, "episodes_per_step": 3, "max_rows": 3, "lora_rank": 4, "least_first_divergence": 0.0}
    settings = TrainSettings(**{**learned_offline([tmp_path / "recording"]), **small})
    states, _ = offline_states(settings)
    assert [state.shown.to_dict()["action"] for state in states][-3:] == ["fill", "click", "finish"]
    summary = train(settings, tmp_path / "run", policy=tiny_policy)
    assert summary["recorded"]["of"] == len(states)


@pytest.mark.parametrize("name", ["greedy", "free", "chat"])
def test_prompts_are_rebuilt_token_by_token(played, name):
    folder, agents = played
    agent, compared, seen = agents[name], 0, ""
    for path in sorted((folder / name).iterdir()):
        episode = read(path)
        for index, record in enumerate(Episode(path).steps()):
            (reply,) = record["completions"]
            (decision,) = agent.decide([State(episode, index).bring(agent)])
            assert [message.text for message in decision.messages] == [one["text"] for one in reply["prompt"]]
            assert decision.completion.prompt_token_ids == reply["prompt_token_ids"], (path, index)
            assert decision.completion.grammar == reply["grammar"]
            assert [message.text for message in decision.messages] == [one["text"] for one in reply["prompt"]]
            seen += decision.messages[-1].text
            compared += 1
    assert compared >= 8
    if name == "greedy":
        assert "instead. Do something else." in seen, "a guard's advice is in a prompt"
        assert "earlier: " in seen or " x" in seen, "a long history is in a prompt"
    if name == "free":
        assert "unreadable reply" in seen


def test_a_proposer_is_taught_by_an_episode_of_roles_and_not_by_a_claim_that_was_rejected(tokenizer, tmp_path):
    policy = TransformersPolicy(small_llama(tokenizer, tie_word_embeddings=True), tokenizer)
    right, done = [one.replace("'", '"') for one in ("{'click':1}", "{'finish':'ok'}")]
    said = [done, '{"reject":{"missing":"nothing was clicked"}}', right, done, '{"accept":{"reason":"so"}}']
    roles = TaskExecutor(LLMAgent(Saying(policy, *said), actions=TaskExecutor.actions, guards=False))
    with Rollouts(1, max_episode_steps=5) as rollouts:
        rollouts.run(roles, [Job(OPTION, 1)], folder=tmp_path)
    (path,) = tmp_path.iterdir()
    mark_episode(path, Mark("solved", "person"))
    episode = read(path)
    assert [episode.teaches(index) and episode.teaches(index).name for index in range(3)] == [None, "click", "finish"]
    (as_demonstration,) = load_recordings([path])
    assert [shown.action.name for shown in as_demonstration.steps] == ["click", "finish"]
    alone = LLMAgent(policy, actions=TaskExecutor.actions, guards=False)
    for index, record in enumerate(Episode(path).steps()):
        (decision,) = alone.decide([State(episode, index).bring(alone)])
        assert [one.text for one in decision.messages] == [one["text"] for one in record["completions"][0]["prompt"]]
        assert ("it was checked" in decision.messages[-1].text) == (index == 1)
    text = (path / "steps.jsonl").read_text()
    (path / "steps.jsonl").write_text(text.replace('"calls": [{"mark_complete": {"answer": "ok"}}]', '"calls": 7', 1))
    write_manifest(path)
    with pytest.raises(EpisodeError, match="roles of step 0 don't match the format"):
        read(path)
    again = TaskExecutor(LLMAgent(Saying(policy, done, said[-1]), actions=TaskExecutor.actions, guards=False))
    for step in episode.steps[:2]:
        again.recall(step.observation, step.actions, completion=step.completion, rejected=step.rejected)
    again.act(episode.steps[2].observation)
    (last,) = [one for one in again.task().history[-1].proposals if one.role == "verifier"]
    shown = last.messages[-1].text
    assert "(failed: nothing was clicked)" in shown
    assert 'proposer: {"click": {"id": 1}}' in shown


def test_what_a_graph_did_instead_of_its_model_is_not_taught(tokenizer, tmp_path):
    policy = TransformersPolicy(small_llama(tokenizer, tie_word_embeddings=True), tokenizer)
    options = {"actions": ("click", "finish"), "guards": False, "constrained": False}
    page = "data:text/html,<button onclick=\"document.title='gone'\">Delete account</button><button>Read</button>"
    said = ['{"click":2}', '{"click":1}', '{"finish":"ok"}']
    graph = GraphAgent(LLMAgent(Saying(policy, *said), **options), confirm="user")
    with Rollouts(1, max_episode_steps=8, user=lambda question: "yes") as rollouts:
        rollouts.run(graph, [Job(open_id(page, "Delete it."), 1)], folder=tmp_path)
    (path,) = tmp_path.iterdir()
    mark_episode(path, Mark("solved", "person"))
    episode = read(path)
    done = [record["actions"][0]["action"] for record in Episode(path).steps()]
    assert done == ["click", "ask_user", "click", "finish"]
    assert [state.shown.name for state in states_of([episode])] == ["click", "click", "finish"]
    (as_demonstration,) = load_recordings([path])
    assert [shown.action.name for shown in as_demonstration.steps] == ["click", "click", "finish"]
    alone = LLMAgent(policy, **options)
    (decision,) = alone.decide([State(episode, 3).bring(alone)])
    (record,) = [one for one in Episode(path).steps() if one["step"] == 3]
    assert [one.text for one in decision.messages] == [one["text"] for one in record["completions"][0]["prompt"]]
    steps = (path / "steps.jsonl").read_text()
    (path / "steps.jsonl").write_text(steps.replace('"graph": {', '"graph": 7, "was": {', 1))
    write_manifest(path)
    with pytest.raises(EpisodeError, match="it is damaged"):
        read(path)


@pytest.mark.parametrize("prompt", ["compact", "chat"])
def test_a_planner_is_taught_by_an_episode_of_the_graph(tokenizer, tmp_path, prompt):
    policy = TransformersPolicy(small_llama(tokenizer, tie_word_embeddings=True), tokenizer)
    options = {
        "actions": ("click", "press", "finish"),
        "guards": False,
        "prompt": prompt,
        "constrained": False,
        "max_new_tokens": 8,
    }
    said = ['{"press":"Escape"}'] * 5 + ['{"click":1}', '{"finish":"ok"}']
    graph = GraphAgent(LLMAgent(Saying(policy, *said), **options))
    with Rollouts(1, max_episode_steps=9) as rollouts:
        rollouts.run(graph, [Job(OPTION, 1)], folder=tmp_path)
    (path,) = tmp_path.iterdir()
    mark_episode(path, Mark("solved", "person"))
    episode, alone, told = read(path), LLMAgent(policy, **options), 0
    for index, record in enumerate(Episode(path).steps()):
        if not record["completions"]:
            continue
        told += bool(episode.steps[index].told)
        (decision,) = alone.decide([State(episode, index).bring(alone)])
        assert [one.text for one in decision.messages] == [one["text"] for one in record["completions"][0]["prompt"]]
    assert told >= 1
    assert "click" in [state.shown.name for state in states_of([episode])]


@pytest.mark.slow
def test_a_model_that_sees_is_shown_the_recorded_screenshot(saved, tmp_path):
    policy = TransformersPolicy(saved(idefics3), device="cpu", dtype="fp32")
    agent = LLMAgent(policy, seed=0, max_prompt_tokens=400, max_image_side=120, max_new_tokens=16, guards=True)
    with Rollouts(1, max_episode_steps=2, screenshot=True) as rollouts:
        (result,) = rollouts.run(agent, [Job(OPTION, 1)], folder=tmp_path)
    (path,) = tmp_path.iterdir()
    episode = read(path, images=True)
    for index, step in enumerate(result.steps):
        (decision,) = agent.decide([State(episode, index).bring(agent)])
        assert decision.completion.prompt_token_ids == step.decision.completion.prompt_token_ids
        (then,), (now,) = ([one for each in made.messages for one in each.images] for made in (step.decision, decision))
        assert np.array_equal(then, now)
    size = Image.open(path / "artifacts/0000.png").size
    Image.new("1", (size[0] * 40, size[1] * 40)).save(path / "artifacts/0000.png")
    write_manifest(path)
    with pytest.raises(EpisodeError, match=r"0000\.png can't be read: .* pixels"):
        read(path, images=True)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The oracles' episodes: three of a task with two steps, and one of a task with one."""
    folder = tmp_path_factory.mktemp("shown")
    with Rollouts(2) as rollouts:
        results = rollouts.run(OracleAgent(), [*(Job(OPTION, seed) for seed in range(3)), Job(TEST, 0)], folder=folder)
    assert all(one.solved for one in results)
    return folder


@pytest.fixture
def copy(shown, tmp_path):
    """The same, to be spoiled."""
    return shutil.copytree(shown, tmp_path / "copy")


def short(*folders, **more):
    small = {"steps": 2, "episodes_per_step": 4, "max_rows": 4, "lora_rank": 4, "least_first_divergence": 0.0}
    given = {**learned_offline(folders), **small, "warmup_steps": 0, "learning_rate": 5e-3, "evaluate_every": 0}
    return TrainSettings(**{**given, **more})


_watched = []


def _note(event, arguments):
    if _watched and event in (
        "socket.connect",
        "socket.getaddrinfo",
        "subprocess.Popen",
        "os.posix_spawn",
        "import",
        "open",
    ):
        _watched[-1].append((event, str(arguments[0] if event != "socket.connect" else arguments[1])))


sys.addaudithook(_note)


ANY = ["--set", "least_first_divergence=0"]
"""A random model heeds no demonstration."""


@contextmanager
def watching():
    """What the process opens, connects to, starts and imports meanwhile."""
    _watched.append([])
    try:
        yield _watched[-1]
    finally:
        _watched.pop()


def reached_out(seen):
    return [(event, what) for event, what in seen if event not in ("open", "import")]


def test_no_recorded_action_is_a_completion_and_the_teacher_is_told_it(shown, tiny_policy, tmp_path, monkeypatch):
    """In a whole run, by the rows that it learns from."""
    learned, sampled = [], []
    collate, complete = sdft.EpisodeSDFTTrainer.collate, TransformersPolicy.complete
    monkeypatch.setattr(
        sdft.EpisodeSDFTTrainer,
        "collate",
        lambda self, rows, **more: (learned.extend(rows), collate(self, rows, **more))[1],
    )
    monkeypatch.setattr(
        TransformersPolicy, "complete",
        lambda self, *given, **more: (made := complete(self, *given, **more), sampled.extend(made))[0],
    )  # fmt: skip
    settings = short(shown, steps=4)
    with watching() as seen:
        train(settings, tmp_path / "run", policy=tiny_policy)
    assert not reached_out(seen), "no browser, no site"
    writer = make_agent(tiny_policy, settings, sampling=False, kind=Demonstrator)
    assert len(learned) == 16
    own = [(one.prompt_token_ids, one.token_ids, one.logprobs) for one in sampled]
    other = 0
    for row in learned:
        assert (row.prompt_ids, row.completion_ids, row.logprobs) in own
        other += row.completion_ids != writer.written_ids(row.told)
        assert f"Correct action: {row.told}" in tiny_policy.tokenizer.decode(row.teacher_prompt_ids)
        assert "Correct action" not in tiny_policy.tokenizer.decode(row.prompt_ids)
    assert other > 8, "the random student rarely does what was recorded"
    assert len({tuple(row.completion_ids) for row in learned}) > 3


def test_a_recorded_action_that_the_student_samples_is_its_own(shown, tiny_policy):
    settings = short(shown)
    states, _ = offline_states(settings)
    agent = make_agent(tiny_policy, settings, sampling=True, guarded=True)
    generator, jobs = StoredGenerator(agent, states), training_jobs(settings)[:4]
    for number, seed in enumerate((7, 7, 8)):
        generator.request(number, jobs, seed)
    first, again, other = (generator.collect(number).results for number in range(3))

    def drawn(results):
        return [one.steps[0].decision.completion.token_ids for one in results]

    assert drawn(first) == drawn(again), "a resumed run samples the same"
    assert drawn(first) != drawn(other)
    assert all(not one.steps[0].decision.messages[-1].text.startswith("Correct") for one in first)


@pytest.mark.slow
def test_sft_learns_from_the_same_folders(shown, tiny_policy, tmp_path):
    settings = short(shown)
    with watching() as seen:
        train_sft(settings, tmp_path / "run", policy=tiny_policy)
    assert not reached_out(seen)
    rows = [json.loads(line) for line in (tmp_path / "run/rows.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    replies = {tiny_policy.tokenizer.decode(row["completion_ids"], skip_special_tokens=True) for row in rows}
    recorded = {one.shown.id for one in states_of(load_stored([shown]).episodes)}
    assert {json.loads('{"' + reply)["click"] for reply in replies} <= recorded


def test_what_was_not_solved_teaches_only_where_it_earned_a_reward(copy, tmp_path):
    paths = sorted(copy.iterdir())
    for path in paths:
        spoil_meta(path, outcome="failed", totals={"judged": True})
        spoil_steps(path, lambda index, step: {**step, "reward": 0.0})
    with pytest.raises(EpisodeError, match=r"4 episodes, 0 of them solved\. Training uses only episodes"):
        load_stored([copy])
    spoil_steps(paths[0], lambda index, step: {**step, "reward": 0.5 if index == 0 else 0.0})
    (state,) = states_of(load_stored([copy]).episodes)
    assert (state.index, state.episode.folder) == (0, paths[0])
    spoil_meta(paths[0], outcome="env_error")
    with pytest.raises(EpisodeError, match="nothing to learn"):
        load_stored([copy])
    mark_episode(paths[1], Mark("solved", "person", "it is what I asked for"))
    mark_episode(paths[2], Mark("failed", "person", "it is not"))
    assert {one.folder for one in load_stored([copy]).teaching()} == {paths[1]}, "a person's mark counts"


def test_where_nothing_was_solved_neither_student_nor_teacher_moves(tiny_policy, tmp_path, monkeypatch):
    """The gate, in a run that plays: no episode of two steps is solved in one."""
    moved = []
    monkeypatch.setattr("selfsurf.sdft.teacher.weights.move_teacher", lambda model, rate: moved.append(rate))
    small = {"steps": 2, "episodes_per_step": 2, "max_episode_steps": 1, "lora_rank": 4, "warmup_steps": 0}
    summary = train(TrainSettings(tasks=(OPTION,), success_gate=True, **small), tmp_path / "run", policy=tiny_policy)
    assert moved == [1.0], "it was copied at the start"
    changed = [name for name, one in summary["model"].named_parameters() if "lora_B.default" in name and one.any()]
    assert not changed
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [(line["rows"], line["told/oracle"]) for line in lines] == [(0, 2), (0, 2)]


def test_one_in_five_different_episodes_is_held_out(shown, copy, tmp_path):
    with Rollouts(1) as rollouts:
        rollouts.run(OracleAgent(), [Job(OPTION, 3)], folder=tmp_path / "more")
    episodes = load_stored([shown, tmp_path / "more"]).episodes
    learned, held = divide(episodes)
    assert (len(learned), len(held)) == (4, 1)
    assert divide(episodes[:4]) == (episodes[:4], [])
    shutil.copytree(tmp_path / "more", copy / "more")
    again = load_stored([shown, tmp_path / "more", copy]).episodes
    learned, held = divide(again)
    assert len(held) == 2
    assert len({one.what for one in held}) == 1, "a copy of what is held out is not learned from"
    assert not {one.what for one in held} & {one.what for one in learned}


def test_what_is_held_out_was_done_on_no_page_that_is_learned(shown, copy):
    episodes = sorted(path.parent for path in copy.rglob("episode.json"))
    for number, path in enumerate(episodes):  # other runs that begin alike
        alike = shutil.copytree(path, copy / f"alike-{number}")
        spoil_steps(alike, lambda index, step: seen(dom=step["observation"]["dom"] + "\nmore" * index)(index, step))
    settings = short(copy, evaluate_every=1)
    learned, held = offline_states(settings)
    assert learned
    assert not {one.place for one in held} & {one.place for one in learned}
    everything = states_of(load_stored([copy]).teaching(settings.actions), settings.actions)
    assert len(learned) + len(held) < len(everything)


def test_what_was_redacted_in_full_is_no_demonstration(copy):
    for path in copy.rglob("episode.json"):
        spoil_meta(path.parent, redacted="full")
    with pytest.raises(EpisodeError, match="There is no solved episode"):
        load_recordings([copy])


def test_what_is_shown_beside_tasks_is_not_evaluated_on(copy):
    for path in copy.rglob("episode.json"):
        spoil_meta(path.parent, seed=1_000_003)
    settings = TrainSettings(tasks=(OPTION,), demonstrations=(str(copy),), evaluate_every=1)
    with pytest.raises(ValueError, match=r"evaluation seeds .* include training seeds"):
        check_heldout(settings, training_jobs(settings))


def spoil_meta(folder, **changes):
    meta = json.loads((folder / "episode.json").read_text())
    (folder / "episode.json").write_text(json.dumps({**meta, **changes}))
    write_manifest(folder)


def spoil_steps(folder, change):
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    lines = [change(index, one) for index, one in enumerate(lines)]
    (folder / "steps.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines if one is not None))
    write_manifest(folder)


def many_steps(folder, count):
    step = json.loads((folder / "steps.jsonl").read_text().splitlines()[0])
    lines = (json.dumps({**step, "step": number}) + "\n" for number in range(count))
    (folder / "steps.jsonl").write_text("".join(lines))
    write_manifest(folder)


def seen(**changes):
    return lambda index, step: {**step, "observation": {**step["observation"], **changes}}


def without(name):
    def change(index, step):
        return {**step, "observation": {key: one for key, one in step["observation"].items() if key != name}}

    return change


DEEP = "[" * 100_000 + "]" * 100_000
SPOILS = {
    "a page without elements": (lambda at: spoil_steps(at, without("elements")), "step 0 has no elements of the page"),
    "a page without outline": (lambda at: spoil_steps(at, without("dom")), "step 0 has no dom of the page"),
    "a missing step": (lambda at: spoil_steps(at, lambda index, step: step if index else None), "step 0 is missing"),
    "a cut line": (lambda at: at.joinpath("steps.jsonl").write_text("{"), "steps.jsonl is damaged"),
    "no steps": (lambda at: at.joinpath("steps.jsonl").unlink(), "steps.jsonl is missing"),
    "no manifest": (lambda at: at.joinpath("manifest.json").unlink(), "cut off, or its manifest.json is missing"),
    "a changed file": (lambda at: at.joinpath("episode.json").write_text('{"format": 2}'), "episode.json is damaged"),
    "only changes": (
        lambda at: spoil_steps(at, seen(dom=CHANGED, page_text="")), "only the changes to a page",
    ),
    "an unknown format": (lambda at: spoil_meta(at, format=7), "is not an episode of format"),
    "what is private left out": (lambda at: spoil_meta(at, redacted="full"), "redacted in full"),
    "a list": (lambda at: spoil_meta(at, goal=["x"]), "goal"),
    "an element without a place": (lambda at: spoil_steps(at, seen(elements=[{"id": 1}])), "has no bbox"),
    "texts for numbers": (
        lambda at: spoil_steps(at, lambda index, step: {**step, "reward": "x"}), "damaged",
    ),
    "two of one id": (
        lambda at: spoil_steps(at, lambda index, step: seen(elements=[*step["observation"]["elements"]] * 2)(0, step)),
        "two elements have the same id",
    ),
    "a path for a picture": (
        lambda at: spoil_steps(at, lambda index, step: {**step, "screenshot": "../../../etc/passwd"}),
        "names a screenshot outside",
    ),
    "a link": (lambda at: (at / "artifacts/0000.png").symlink_to("/dev/zero"), "not a regular file"),
    "a linked file": (
        lambda at: (at.joinpath("steps.jsonl").unlink(), at.joinpath("steps.jsonl").symlink_to("/dev/zero")),
        "not a regular file",
    ),
    "a giant": (lambda at: (at / "artifacts/big.png").open("wb").truncate(2**40), "too large"),
    "deep nesting": (lambda at: at.joinpath("episode.json").write_text(DEEP), "damaged"),
    "no episode.json": (lambda at: at.joinpath("episode.json").unlink(), "episode.json is missing"),
    "a giant goal": (lambda at: spoil_meta(at, goal="x" * 5_000_000), "its goal is too long"),
    "a giant page": (lambda at: spoil_steps(at, seen(dom="x" * 9_000_000)), "page of step 0 is too long"),
    "too many steps": (lambda at: many_steps(at, 2_001), "too long: more than 2,000 steps"),
    "a deep step": (lambda at: (at.joinpath("steps.jsonl").write_text(DEEP + "\n{}"), write_manifest(at)), "damaged"),
    "endless numbers": (lambda at: spoil_steps(at, lambda index, step: {**step, "reward": 10**400}), "damaged"),
    "manifest of others": (
        lambda at: at.joinpath("manifest.json").write_text('{"files": [["x"]]}'), "damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SPOILS)
def test_an_episode_that_is_not_whole_is_named_and_left_out(copy, what):
    spoil, says = SPOILS[what]
    victim = sorted(copy.iterdir())[0]
    spoil(victim)
    with watching() as seen:
        found = load_stored([copy])
    assert list(found.left_out) == [victim]
    assert says in found.left_out[victim]
    assert str(victim) in found.text()
    assert len(found.episodes) == 3
    assert not [one for one in seen if "passwd" in one[1] or "/dev/zero" in one[1]]


def test_names_can_t_speak_to_the_terminal(copy):
    odd = copy / "\x1b[2J\u202e"
    next(copy.iterdir()).rename(odd)
    (odd / "manifest.json").write_text(json.dumps({"files": {"\x1b]0;x": "0"}}))
    text = load_stored([copy]).text()
    assert "left out" in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_a_hostile_episode_does_nothing(copy, tmp_path, tiny_folder):
    """It names a task's file to be run, addresses in the machine's own network, models and adapters, and odd words."""
    evil = tmp_path / "evil.py"
    evil.write_text("open('owned', 'w')\nfrom selfsurf.browser_env import Task\nclass Evil(Task): pass\n")
    own = "http://169.254.169.254/latest/meta-data"
    for path, changes in zip(sorted(copy.iterdir()), (
        {"task": f"{evil}:Evil", "env_id": "evil.py:Evil"},
        {"env_id": "Browser-v0", "task": None, "url": own, "goal": "\x1b[2J\u202e\ud800 rm -rf"},
        {"model": "http://127.0.0.1:1/model", "adapter": "/etc", "agent": "os:system", "env_id": "os:Evil/x-v0"},
        {"url": "file:///etc/passwd", "versions": {"selfsurf": "../.."}, "env_id": "Browser-v0", "task": None},
    ), strict=True):  # fmt: skip
        spoil_meta(path, **changes)
        spoil_steps(path, seen(url=own, tabs=[{"url": own, "title": "\ud800", "active": True}]))
    command = [
        "train",
        "--episodes",
        copy,
        "--offline",
        "--model",
        tiny_folder,
        "--out",
        tmp_path / "run",
        "--steps",
        1,
    ]
    with watching() as saw:
        done = CliRunner().invoke(
            cli.app, [*map(str, command), "--set", "episodes_per_step=4", "--set", "evaluate_every=0", *ANY]
        )
    assert done.exit_code == 0, done.output
    assert not reached_out(saw)
    assert not [what for _, what in saw if "evil" in what or "passwd" in what]
    assert "\x1b[2J" not in done.output
    about = json.loads((tmp_path / "run/adapter/selfsurf.json").read_text())
    from selfsurf.envs_registry import is_open, task_of

    for name in about["learned"]:
        if not is_open(name) and name not in (OPTION, TEST):
            with pytest.raises(ValueError, match="no task"):
                task_of(name)  # a later run that practises what was learned runs nothing, either


@pytest.fixture
def recorded(tmp_path):
    """An episode on a page of one's own, in a folder, and what the page's server was asked for."""
    import http.server
    import threading

    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>Shop</title><button>Buy</button><button>Leave</button>")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = open_id(f"http://127.0.0.1:{server.server_port}/shop", "Buy it")
    script = [{"action": "click", "id": 1}, {"action": "finish", "answer": ""}]
    with Rollouts(1) as rollouts:
        rollouts.run(ScriptedAgent(script), [Job(name, 0)], folder=tmp_path / "mine")
    (folder,) = (tmp_path / "mine").iterdir()
    spoil_meta(folder, env_id="Browser-v0", url=f"http://127.0.0.1:{server.server_port}/shop")
    mark_episode(folder, Mark("solved", "person", "bought"))
    yield tmp_path / "mine", asked, server
    server.shutdown()
    server.server_close()


def test_an_episode_whose_site_is_gone_trains(recorded, tmp_path, tiny_folder):
    folder, _, server = recorded
    server.shutdown()
    server.server_close()
    command = [
        "train",
        "--episodes",
        folder,
        "--offline",
        "--model",
        tiny_folder,
        "--out",
        tmp_path / "run",
        "--steps",
        1,
    ]
    done = CliRunner().invoke(cli.app, [*map(str, command), *ANY])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "no browser is opened. 1 episode, solved." in said
    assert "no episode is held out, and no gain is claimed" in said
    assert "held-out" not in said
    assert "agreement on trained states (no gain shown) 0.00 before" in said
    about = json.loads((tmp_path / "run/adapter/selfsurf.json").read_text())
    assert about["prompt"]["actions"] == ["click", "fill", "select", "finish"]
    assert about["recorded"]["of"] == 2


@pytest.mark.slow
def test_demonstrations_are_not_played_on_their_site_without_live(recorded, tmp_path, tiny_folder):
    folder, asked, _ = recorded
    before = len(asked)
    command = ["train", "--demonstrations", folder, "--model", tiny_folder, "--out", tmp_path / "run", "--steps", 1]
    more = [
        "--set",
        "evaluate_every=0",
        "--set",
        "recorded_rows=2",
        "--set",
        "episodes_per_step=1",
        "--set",
        "max_rows=1",
    ]
    done = CliRunner().invoke(cli.app, [*map(str, command), *more, *ANY])
    assert done.exit_code == 0, done.output
    assert "without a browser. Add --live to play as well." in " ".join(done.output.split())
    assert len(asked) == before
    (line,) = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert line["rows/recorded"] == 2, "as they were done, as with --live"
    live = CliRunner().invoke(
        cli.app, [*map(str, [*command[:-3], tmp_path / "live", "--steps", 1, "--live"]), *more, *ANY]
    )
    assert live.exit_code == 0, live.output
    assert len(asked) > before
    with pytest.raises(ValueError, match="Set live=True to permit it"):
        train(TrainSettings(demonstrations=(str(folder),), actions=("click", "finish")), tmp_path / "api")


@pytest.mark.parametrize(("learn", "kind"), [(train_grpo, GRPOSettings), (train_sft, TrainSettings)])
def test_other_ways_to_train_do_not_play_there_either(recorded, tmp_path, tiny_policy, learn, kind):
    folder, asked, _ = recorded
    before = len(asked)
    with pytest.raises(ValueError, match="Set live=True to permit it"):
        learn(kind(demonstrations=(str(folder),), actions=("click", "finish")), tmp_path / "run", policy=tiny_policy)
    assert len(asked) == before
    assert not (tmp_path / "run").exists()


def test_sft_takes_episodes_without_more_ado(shown, tmp_path, tiny_policy):
    settings = TrainSettings(episodes=(str(shown),), steps=1, max_rows=2, lora_rank=4)
    assert train_sft(settings, tmp_path / "run", policy=tiny_policy)["steps"] == 1


def test_why_none_is_held_out_and_that_the_end_is_measured_anew(shown, tmp_path, tiny_policy, monkeypatch, caplog):
    with Rollouts(1) as rollouts:
        rollouts.run(OracleAgent(), [Job(OPTION, 3)], folder=tmp_path / "more")
    events, forget = [], TransformersPolicy.forget
    monkeypatch.setattr(TransformersPolicy, "forget", lambda self: (events.append("forget"), forget(self))[1])
    found = Agreement(right=0, of=0, missed=[], solved=0, judged=0)
    compared = lambda *_, **__: (events.append("agreement"), found)[1]  # noqa: E731
    monkeypatch.setattr("selfsurf.sdft.trainers.train.agreement_at", compared)
    monkeypatch.setattr(
        "selfsurf.sdft.trainers.train.offline_states", lambda *given, **more: (offline_states(*given, **more)[0], [])
    )
    settings = short(shown, tmp_path / "more", steps=1, evaluate_every=2)
    train(settings, tmp_path / "run", policy=tiny_policy, progress=lambda *_: events.append("step"))
    assert "Training includes every state of the held-out episodes: no episode is held out" in caplog.text
    assert events[-2:] == ["forget", "agreement"]


def test_grpo_is_not_offline(shown, tmp_path, tiny_policy):
    settings = GRPOSettings(episodes=(str(shown),), evaluate_every=0)
    with pytest.raises(ValueError, match="GRPO plays its own episodes"):
        train_grpo(settings, tmp_path / "run", policy=tiny_policy)


@pytest.mark.slow
def test_a_run_goes_back_when_it_forgets(shown, tiny_policy, tmp_path):
    """The gates are in force: agreement and perplexity, every so many steps."""
    settings = short(shown, evaluate_every=2, learning_rate=5.0, max_perplexity_rise=1e-4)
    summary = train(settings, tmp_path / "run", policy=tiny_policy)
    found = summary["evaluation"]
    assert found["measure"] == "agreement"
    assert found["rollbacks"] == 1
    assert found["best"]["step"] == 0
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert "evaluation/agreement" in lines[0]
    assert "evaluation/success" not in lines[0]
    assert any("the state of step 0 is restored" in line.get("rollback", "") for line in lines)


def test_a_run_ends_with_the_first_state_that_is_good_enough(shown, tiny_policy, tmp_path):
    given = {"evaluate_every": 2, "recorded_rows": 8, "steps": 20, "learning_rate": 2e-2}
    settings = short(shown, **given, stop_at_success=0.3)

    def lines():
        return [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]

    summary = train(settings, tmp_path / "run", policy=tiny_policy)
    found = [line["evaluation/agreement"] for line in lines() if "evaluation/agreement" in line]
    assert max(found[:-1]) < 0.3 <= found[-1] == summary["evaluation"]["best"]["success"]
    assert summary["steps"] == summary["evaluation"]["best"]["step"] == lines()[-1]["step"] < 20
    said, bare = len(lines()), TransformersPolicy(summary["model"].unload(), tiny_policy.tokenizer)
    again = train(settings, tmp_path / "run", policy=bare, resume=True)
    assert (again["steps"], len(lines())) == (summary["steps"], said), "it stays ended"
    with pytest.raises(ValueError, match="stop_at_success requires evaluate_every"):
        short(shown, stop_at_success=0.3)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", 'contexts=["demonstration","feedback"]'], 'the context "feedback" is not available offline'),
        (["--set", 'contexts=["oracle"]'], "offline the teacher is shown recorded actions"),
        (["--set", "lead=0.5"], "offline training plays no episodes: leave out lead"),
        (["MiniWoB/click-test-v0"], "offline training plays no episodes: leave out tasks"),
        (["--live"], "Give --live or --offline, not both"),
        (["--demonstrations", "x"], "Give --episodes or --demonstrations, not both"),
        (["--profile", "p"], "--profile: not allowed here, because no browser is opened"),
        (["--confirm", "ask"], "--confirm: not allowed here, because no browser is opened"),
        (["--episodes", "not/here"], "--episodes: There is no folder"),
    ],
)
def test_what_can_t_be_offline_is_said(shown, tmp_path, arguments, says):
    command = ["train", "--episodes", str(shown), "--offline", "--out", str(tmp_path / "run"), *arguments]
    done = CliRunner().invoke(cli.app, command)
    assert done.exit_code == 2
    assert says in " ".join(done.output.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


def test_a_file_s_environment_is_not_read_offline(shown, tmp_path, monkeypatch):
    (tmp_path / "selfsurf.toml").write_text("[environment]\nconfirm = 'ask'\nsecret = {pw = 'env:NOT_SET_HERE'}\n")
    monkeypatch.chdir(tmp_path)
    command = ["train", "--episodes", str(shown), "--offline", "--out", str(tmp_path / "run"), "--model", "none-such"]
    done = CliRunner().invoke(cli.app, command)
    assert done.exit_code == 2, "for the model"
    assert "none-such" in done.output
    assert "NOT_SET_HERE" not in done.output


def test_episodes_are_for_offline(shown, tmp_path):
    done = CliRunner().invoke(cli.app, ["train", "--episodes", str(shown), "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "Add --offline" in done.output
    done = CliRunner().invoke(cli.app, ["train", "--offline", "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "give their folders as --episodes" in " ".join(done.output.replace("│", " ").split())
