"""What the teacher is told: each context on real pages, how they combine, and training without an oracle."""

import json

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from selfsurf.agents.prompt.prompt import with_demonstration, with_hint
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env.record.episode import EpisodeError
from selfsurf.browser_env.record.verdict import Mark, mark_episode
from selfsurf.envs_registry import open_id, task_of
from selfsurf.scripts import cli
from selfsurf.sdft import train
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.jobs import training_jobs
from selfsurf.sdft.rows.samples import samples_of
from selfsurf.sdft.run.contexts import make_lessons
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.demonstrations import KEPT, DemonstrationContext, HindsightContext
from selfsurf.sdft.teacher.feedback import FeedbackContext
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext
from selfsurf.sdft.teacher.recording import load_recordings, recording_of_result
from tests.few import few
from tests.sdft.contexts_cases import FORM, GOAL, NEWS, ORDER, in_turn, named, open_task, oracle, played, step_of

KINDS = ("click", "fill", "select", "finish")
LOGIN = "MiniWoB/login-user-v0"


def run(*arguments):
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def ordered():
    """The order, as it was shown on the plain page."""
    result = played(open_task(FORM), in_turn(*ORDER), steps=4)
    result.outcome = "solved"  # as a person says of a recording
    return result


@pytest.fixture(scope="module")
def shown(ordered):
    return DemonstrationContext([recording_of_result(ordered)], KINDS)


@pytest.fixture(scope="module")
def login(tmp_path_factory):
    """A folder with an episode of a task, made by its oracle and written by `selfsurf run`."""
    folder = tmp_path_factory.mktemp("shown") / "login"
    done = run("run", "--task", LOGIN, "--seed", 3, "--backend", "oracle", "--out", folder, "--json")
    assert done.exit_code == 0, done.output
    return folder


def told_after(context, *moves, page=NEWS + FORM, goal=GOAL):
    """What is told, and the page it is about, after a student has made these moves."""
    result = played(open_task(page, goal), in_turn(*moves, {"action": "wait", "ms": 1}), steps=len(moves) + 1)
    told = context.tell(result, len(moves))
    return told and json.loads(told.action), result.steps[-1].observation


@pytest.mark.parametrize(
    ("moves", "kind", "name", "text"),
    [
        ((), "fill", "Name", "Ada"),
        (ORDER[:1], "fill", "City", "Oslo"),
        (ORDER[:2], "click", "Send", None),
        ((ORDER[1],), "fill", "Name", "Ada"),  # in another order
        ((ORDER[1], ORDER[0]), "click", "Send", None),
        ((("fill", "Name", "Bob"),), "fill", "Name", "Ada"),  # wrongly
        ((*ORDER[:2], ("fill", "Name", "Bob")), "fill", "Name", "Ada"),  # undone again
        ((("click", "Menu"), ORDER[0]), "fill", "City", "Oslo"),  # with something between
    ],
)
def test_a_demonstration_tells_what_is_next_in_terms_of_the_students_page(shown, ordered, moves, kind, name, text):
    action, observation = told_after(shown, *moves)
    assert action == {kind: named(observation, name), **({"text": text} if text else {})}
    before = {element["name"]: element["id"] for element in ordered.steps[0].observation["elements"]}
    assert named(observation, name) != before[name], "the ids must differ, or the test shows nothing"


PAGES = """<title>Order</title><label>Name <input></label> <button onclick="document.body.innerHTML =
'<label>Street <input></label> <label>Town <input></label> <button>Send</button>'">Next</button>"""


@pytest.mark.parametrize(
    ("moves", "name"),
    few(
        3,
        [
            ((), "Name"),
            ((0, 1), "Street"),
            ((0, 1, 2), "Town"),
            ((1, 2), "Town"),
            ((1, 3), "Street"),
            ((1, 2, 3), "Send"),
        ],
    ),
)
def test_over_several_pages_it_is_the_page_that_counts(moves, name):
    flow = (("fill", "Name", "Ada"), ("click", "Next"), ("fill", "Street", "Main"), ("fill", "Town", "Oslo"),
            ("click", "Send"))  # fmt: skip
    result = played(open_task(PAGES), in_turn(*flow), steps=5)
    context = DemonstrationContext([recording_of_result(result)], KINDS)
    action, observation = told_after(context, *(flow[index] for index in moves), page=PAGES)
    assert (action.get("fill") or action.get("click")) == named(observation, name)


def test_at_the_recorded_end_it_tells_to_finish(shown, ordered):
    action, _ = told_after(shown, *ORDER[:3])
    assert action == {"finish": "done"}
    without = DemonstrationContext([recording_of_result(ordered)], ("click", "fill"))
    assert told_after(without, *ORDER[:3])[0] is None, "a student that is not offered it can't do it"


def test_it_says_nothing_where_it_was_not(shown):
    assert told_after(shown, page="<title>Order</title><h1>Closed</h1><a href=#>Back</a>")[0] is None
    assert told_after(shown, page=FORM, goal="Order as Bob of Rome.")[0] is None
    # An element that the page has once is the recorded one wherever it is; of two, neither.
    action, observation = told_after(shown, page="<p>News</p><label>Name <input></label>" + NEWS * 3)
    assert action == {"fill": named(observation, "Name"), "text": "Ada"}
    assert told_after(shown, page="<label>Name <input></label><label>Name <input></label>" + NEWS * 3)[0] is None


def test_it_does_not_tell_of_what_the_student_was_not_shown(shown):
    result = played(open_task(FORM), in_turn({"action": "wait", "ms": 1}))
    observation = result.steps[0].observation
    result.steps[0] = step_of(observation, {"action": "wait", "ms": 1}, shown=[named(observation, "Send")])
    assert shown.tell(result, 0) is None


def test_episodes_from_disk(login, tmp_path):
    (recording,) = load_recordings([login.parent])
    assert (recording.env_id, recording.seed) == (LOGIN, 3)
    assert [step.action.name for step in recording.steps] == ["fill", "fill", "click"]
    context = DemonstrationContext([recording], KINDS)
    result = played(LOGIN, oracle, seed=3, steps=3)
    for index, step in enumerate(result.steps):
        assert context.tell(result, index) == OracleContext().tell(result, index), step.observation["dom"]
    assert context.can_speak(LOGIN)
    assert not context.can_speak("MiniWoB/click-test-v0")
    with pytest.raises(EpisodeError, match=r"There is no solved episode in .*make one with `selfsurf record`"):
        load_recordings([tmp_path])


def test_a_recording_of_an_open_page_is_a_task_of_its_own(tmp_path):
    made = run("run", "--url", f"data:text/html,{FORM}", "--goal", GOAL, "--backend", "random", "--max-steps", 1,
               "--out", tmp_path / "e", "--json")  # fmt: skip
    assert made.exit_code == 1
    with pytest.raises(EpisodeError, match=r"only episodes that ended as timeout\. .* --outcome solved"):
        load_recordings([tmp_path])
    mark_episode(tmp_path / "e", Mark("solved", "person"))
    (recording,) = load_recordings([tmp_path])
    task = task_of(recording.env_id)
    assert task.start_url.startswith("data:text/html,")
    assert task.goal == GOAL
    elsewhere = open_id("http://other.test/", GOAL)
    assert DemonstrationContext([recording], KINDS).can_speak(elsewhere)
    assert not DemonstrationContext([recording], KINDS).can_speak(open_id("http://other.test/", "Sleep."))
    with pytest.raises(ValueError, match="needs a start page and a goal"):
        task_of("Browser-v0?goal=x")


def test_an_open_ended_episode_that_nobody_judges_is_learned_from(tiny_policy, settings):
    ended = played(open_task(FORM), in_turn({"action": "finish", "answer": "done"}))
    assert (ended.outcome, ended.trainable) == ("stopped", False)
    (row,) = samples_of([ended], tiny_policy, LessonContext([FeedbackContext()]))
    assert "After finish done: Nothing changed on the page." in tiny_policy.tokenizer.decode(row.teacher_prompt_ids)
    chosen = settings.model_copy(update={"tasks": (open_task(FORM),)})
    with Rollouts(1, max_episode_steps=1) as rollouts:
        (result,) = rollouts.run(make_agent(tiny_policy, chosen, sampling=True), training_jobs(chosen)[:1])
    assert (result.outcome, result.steps[0].observation["goal"]) == ("timeout", GOAL)


def test_hindsight_keeps_the_shortest_and_forgets_what_will_be_run_again(ordered, tmp_path):
    path = tmp_path / "hindsight.jsonl"
    own = HindsightContext([], KINDS, path=path)
    failed = played(open_task(FORM), in_turn(ORDER[0]))
    own.learn([failed], batch=0)
    assert own.tell(failed, 0) is None
    assert not own._recordings, "what was only asked for takes no room"
    longer = played(open_task(FORM), in_turn(("click", "Name"), *ORDER), steps=5)
    longer.outcome = "solved"
    own.learn([longer], batch=1)
    own.learn([ordered] * KEPT, batch=2)
    own.learn([longer], batch=3)
    assert [len(one.steps) for one in own._of(longer.job.env_id, GOAL)] == [4] * KEPT
    told = own.tell(failed, 0)
    assert told == DemonstrationContext([recording_of_result(ordered)], KINDS).tell(failed, 0) is not None
    assert [json.loads(line)["batch"] for line in path.read_text().splitlines()] == [1] + [2] * KEPT
    with path.open("a") as file:
        file.write('{"batch": 1, "steps": [{"action": {}')  # a kill
    again = HindsightContext([], KINDS, path=path, batch=2)
    assert [len(one.steps) for one in again._of(longer.job.env_id, GOAL)] == [5]
    assert again.tell(failed, 0).action == '{"click":1}', "what the longer one did first"
    assert len(path.read_text().splitlines()) == 1


def test_feedback_tells_what_came_of_it():
    result = played(open_task(FORM), in_turn(*ORDER[:2], {"action": "click", "id": 99}, ORDER[2]), steps=4)
    filled, _, failed, sent = (FeedbackContext().tell(result, index) for index in range(4))
    assert all(told.action is None for told in (filled, failed, sent))
    assert filled.text == 'After fill textbox "Name" Ada: New: textbox "Name" value="Ada". Gone: textbox "Name".'
    assert failed.text.startswith("click is wrong: ")
    assert failed.text.endswith(". Choose another.")
    assert sent.text == (
        'After click button "Send": New: link "Home". '
        'Gone: textbox "Name" value="Ada", textbox "City" value="Oslo", button "Send".'
    )
    solved = played("MiniWoB/click-test-v0", oracle)
    assert (
        FeedbackContext().tell(solved, 0).text == 'click button "Click Me!" is right: the goal is reached. Reward: 1.'
    )
    solved.outcome, solved.steps[0].reward = "failed", 0.0
    missed = 'click button "Click Me!" is wrong: the goal is missed. Choose another.'
    assert FeedbackContext().tell(solved, 0).text == missed
    solved.steps[0].after = None
    assert FeedbackContext().tell(solved, 0) is None


def test_the_default_is_the_demonstration_as_it_was(tiny_policy, settings):
    with Rollouts(2, max_episode_steps=1) as rollouts:
        results = rollouts.run(make_agent(tiny_policy, settings, sampling=True), training_jobs(settings)[:2])
    rows = samples_of(results, tiny_policy, make_lessons(settings))
    steps = [step for result in results for step in result.steps]
    for row, step in zip(rows, steps, strict=True):
        whole = with_demonstration(step.decision.messages, step.privileged)
        prefill = step.decision.completion.prefill_token_ids
        assert row.teacher_prompt_ids == tiny_policy.encode(whole) + prefill
        assert row.right is (step.decision.completion.text == compact(step.privileged["action"]))
        assert all(step.after is not None for step in steps)


def test_contexts_combine_to_one_text_with_one_action_at_its_end(shown):
    result = played("MiniWoB/click-test-v0", oracle)
    several = LessonContext([OracleContext(), FeedbackContext(), OracleContext()])
    ((both,),) = several.of([result])
    action, feedback = OracleContext().tell(result, 0), FeedbackContext().tell(result, 0)
    assert (both.text, both.action) == (f"{feedback.text}\n{action.text}", action.action)
    assert several.take_counts() == {"told/oracle": 1, "told/feedback": 1}
    assert several.take_counts() == {"told/oracle": 0, "told/feedback": 0}
    assert LessonContext([shown]).of([result]) == [[None]]
    messages = result.steps[0].decision.messages
    told = with_hint(messages, both.text)
    assert told[-1].text == f"{messages[-1].text}\n\n{both.text}"
    ((alone,),) = LessonContext([FeedbackContext()]).of([result])
    assert alone.action is None


def test_an_action_is_told_in_the_words_of_the_settings(login):
    result = played("MiniWoB/click-test-v0", oracle)
    settings = TrainSettings(tasks=("MiniWoB/click-test-v0", LOGIN), contexts=("oracle", "demonstration"),
                             demonstrations=(str(login),), teacher_wording="Now {action}, {action}!")  # fmt: skip
    lessons = make_lessons(settings)
    ((told,),) = lessons.of([result])
    assert told.text == f"Now {told.action}, {told.action}!"
    assert {context.wording for context in lessons.contexts} == {settings.teacher_wording}
    with pytest.raises(ValidationError, match=r"lacks \{action\}"):
        TrainSettings(tasks=(LOGIN,), teacher_wording="Do it")


def test_settings_that_make_no_sense(login):
    for wrong, why in [
        ({}, "there is nothing to learn"),
        ({"tasks": (LOGIN,), "hindsight_episodes": (str(login),)}, "need the context"),
        ({"tasks": (LOGIN,), "contexts": ("demonstration",)}, "need each other"),
        ({"tasks": (LOGIN,), "contexts": ("oracle",), "demonstrations": (str(login),)}, "need each other"),
    ]:
        with pytest.raises(ValidationError, match=why):
            TrainSettings(**wrong)
    mute = TrainSettings(tasks=(LOGIN, "MiniWoB/count-sides-v0"), contexts=("oracle", "demonstration"),
                         demonstrations=(str(login),))  # fmt: skip
    with pytest.raises(ValueError, match="No context teaches MiniWoB/count-sides-v0: there is no oracle for it"):
        make_lessons(mute)
    for context in ("hindsight", "feedback"):
        make_lessons(TrainSettings(tasks=("MiniWoB/count-sides-v0",), contexts=(context,)))


def test_training_goes_on_where_there_is_nothing_to_tell(tiny_policy, settings, tmp_path):
    changes = {"tasks": (LOGIN,), "contexts": ("hindsight",), "steps": 2, "episodes_per_step": 1}
    chosen = settings.model_copy(update=changes)  # an episode of 2 steps can't reach the goal
    model = train(chosen, tmp_path / "run", policy=tiny_policy)["model"]
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [(line["rows"], line["told/hindsight"], line["loss"]) for line in lines] == [(0, 0, 0.0)] * 2
    assert all((value == 0).all() for name, value in model.state_dict().items() if "lora_B" in name)


def test_a_task_without_oracle_is_learned_from_what_came_of_the_actions(tiny_policy, settings, tmp_path):
    changes = {"tasks": ("MiniWoB/count-sides-v0",), "contexts": ("hindsight", "feedback"), "steps": 1}
    model = train(settings.model_copy(update=changes), tmp_path / "run", policy=tiny_policy)["model"]
    (line,) = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert line["told/feedback"] == line["rows"] + line["rows/left_out"] > 0
    assert line["step0_divergence"] > 0
    assert any(value.any() for name, value in model.state_dict().items() if "lora_B" in name)


@pytest.mark.slow
def test_from_a_folder_of_episodes_to_an_adapter(tiny_policy, login, tmp_path):
    tiny_policy.model.save_pretrained(tmp_path / "tiny")
    tiny_policy.tokenizer.save_pretrained(tmp_path / "tiny")
    small = [f"--set={name}" for name in ("least_first_divergence=0", "episodes_per_step=2", "lora_rank=2", "max_episode_steps=1", "evaluate_every=1",
                                          "evaluate_seeds=1", "max_perplexity_rise=1e9")]  # fmt: skip
    trained = run("train", "--demonstrations", login, "--model", tmp_path / "tiny", "--steps", 1, "--out",
                  tmp_path / "out", *small, "--live", "--json")  # fmt: skip
    assert trained.exit_code == 0, trained.output
    settings = json.loads(trained.stdout)["settings"]
    assert settings["contexts"] == ["demonstration"]
    assert training_jobs(TrainSettings(**settings)) == [Job(LOGIN, 3)] * 2
    before, line = (json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines())
    assert line["told/demonstration"] == line["rows"] == 2
    assert list(before["evaluation/tasks"]) == list(line["evaluation/tasks"]) == [LOGIN]
    assert (tmp_path / "out/adapter/adapter_model.safetensors").exists()
    (tmp_path / "out/sources.json").write_text('{"recordings": "of what was there when the run began"}')
    others = run("train", "--demonstrations", login, "--model", tmp_path / "tiny", "--steps", 1, "--out",
                 tmp_path / "out", *small, "--live", "--resume")  # fmt: skip
    assert others.exit_code == 1
    assert "have changed since the run" in " ".join(others.output.split())
    refused = run("train", "--live", "--demonstrations", tmp_path / "tiny", "--out", tmp_path / "other")
    assert refused.exit_code == 2
    assert "There is no solved episode" in refused.output
