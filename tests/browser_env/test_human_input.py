"""Asking a person: a step that waits returns at once, no deadline runs meanwhile, and the answer completes it."""

import re
import threading
import time
from pathlib import Path

import pytest

from selfsurf.browser_env import Answer, AsyncBrowserEnv, EnvError, Safety, VectorBrowserEnv, runtime
from tests.browser_env.conftest import Site

QUESTION = {"action": "ask_user", "question": "Which colour?"}
PAGE = """<button onclick="this.remove(); document.title = 'deleted'">Delete account</button>
    <button onclick="document.title = 'read'">Read</button>"""
LATER = {"user": "later", "safety": Safety(confirm="ask"), "step_timeout": 0.6}


def test_a_question_waits_beyond_the_deadline_and_the_answer_completes_its_step(open_page):
    env, _ = open_page(PAGE, options=LATER)
    obs, reward, terminated, truncated, info = env.step(QUESTION)
    assert info["waiting"] == {"kind": "question", "text": "Which colour?"}
    assert (reward, terminated, truncated, info["outcome"]) == (0, False, False, "running")
    assert obs["messages"][-1] == {"role": "assistant", "text": "Which colour?"}
    time.sleep(0.8)
    with pytest.raises(TypeError, match="An answer must be a string, not int"):
        env.unwrapped.answer(5)
    obs, *_, info = env.unwrapped.answer("Blue.")
    assert "waiting" not in info
    assert obs["messages"][-1] == {"role": "user", "text": "Blue."}
    assert (obs["last_action"], obs["last_error"]) == ('{"action": "ask_user", "question": "Which colour?"}', "")
    assert env.unwrapped.core.episode.steps == 1
    with pytest.raises(EnvError, match="nothing to answer"):
        env.unwrapped.answer("Blue.")


def test_until_it_is_answered_a_step_does_nothing_and_only_an_answer_answers(open_page, by_name):
    env, obs = open_page(PAGE, options=LATER)
    env.step(QUESTION)
    for raw in ({"action": "click", "id": by_name(obs, "Read")["id"]}, '{"answer": "Blue."}', "Blue."):
        obs, *_, info = env.step(raw)
        assert info["waiting"]["text"] == "Which colour?"
        assert obs["last_error"] == "Nothing was done: the user has not answered yet."
    obs, *_ = env.step(None)
    assert (obs["last_error"], obs["title"], env.unwrapped.core.episode.steps) == ("", "index", 1)
    obs, *_, info = env.step(Answer("Blue."))
    assert (obs["messages"][-1]["text"], "waiting" in info, env.unwrapped.core.episode.steps) == ("Blue.", False, 1)


@pytest.mark.parametrize(("answer", "title"), [("yes", "deleted"), (" Yes. ", "deleted"), ("Not that one!", "index")])
def test_an_action_is_carried_out_once_it_is_confirmed(open_page, by_name, answer, title):
    env, obs = open_page(PAGE, options=LATER)
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    assert (info["waiting"]["kind"], obs["title"]) == ("confirmation", "index")
    assert "'Delete account'" in info["waiting"]["text"]
    time.sleep(0.7)
    obs, *_, info = env.unwrapped.answer(answer)
    assert (obs["title"], info["risk"]["kind"], info["outcome"]) == (title, "delete", "running")
    assert obs["last_error"].endswith("" if title == "deleted" else 'The user said: "Not that one!"')
    assert bool(obs["last_error"]) == (title == "index")


def test_what_became_something_else_while_it_waited_is_asked_about_again(open_page, by_name):
    change = "<script>onmessage = () => document.querySelector('button').textContent = 'Delete all accounts'</script>"
    env, obs = open_page(PAGE + change, options=LATER)
    env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    page = env.unwrapped.core.session.active.page
    runtime().run(page.evaluate("new Promise(done => { postMessage(0); setTimeout(done, 50) })"))
    obs, *_, info = env.unwrapped.answer("yes")
    assert "'Delete all accounts'" in info["waiting"]["text"]
    assert obs["title"] == "index"
    obs, *_, info = env.unwrapped.answer("yes")
    assert (obs["title"], "waiting" in info) == ("deleted", False)


def test_what_vanished_while_it_waited_is_an_error_of_the_action(open_page, by_name):
    env, obs = open_page(PAGE, options=LATER)
    env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    runtime().run(env.unwrapped.core.session.active.page.evaluate("document.querySelector('button').remove()"))
    obs, *_, info = env.unwrapped.answer("yes")
    assert obs["last_error"]
    assert (info["outcome"], obs["title"]) == ("running", "index")


def test_a_step_that_waits_or_fails_tells_of_no_verdict_and_no_earlier_request(open_page, by_name):
    env, obs = open_page("<a href=two.html>two</a>", options={"user": "later"}, two="<button>Delete account</button>")
    assert env.reset(seed=0)[1]["judged"] is False
    *_, info = env.step({"action": "click", "id": by_name(obs, "two")["id"]})
    assert info["requests"]
    *_, info = env.step({"action": "ask_user", "question": "Which?"})
    assert "waiting" in info
    assert (info["judged"], info["requests"]) == (False, ())
    env.unwrapped.answer("That.")
    runtime().run(env.unwrapped.core.session.close(broken=True))
    *_, info = env.step({"action": "press", "key": "a"})
    assert (info["outcome"], info["judged"], info["requests"]) == ("env_error", False, ())


def test_a_reset_drops_the_question(open_page):
    env, _ = open_page(PAGE, options=LATER)
    env.step(QUESTION)
    obs, info = env.reset(seed=0)
    assert ("waiting" in info, len(obs["messages"])) == (False, 1)
    with pytest.raises(EnvError):
        env.unwrapped.answer("Blue.")
    _, *_, info = env.step({"action": "wait", "ms": 1})
    assert "waiting" not in info


@pytest.mark.parametrize(
    ("user", "title", "error"),
    [
        (lambda question: "yes", "deleted", ""),
        (lambda question: "no", "index", "did not allow"),
        (None, "index", "Nobody is there to allow this action (delete)."),
    ],
)
def test_a_function_answers_both_kinds_and_without_anybody_it_is_refused(open_page, by_name, user, title, error):
    env, obs = open_page(PAGE, options={"user": user, "safety": Safety(confirm="ask")})
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    assert (obs["title"], "waiting" in info) == (title, False)
    assert info["risk"]["confirmed"] == ("refused" if error else "by the user")
    assert error in obs["last_error"]


def test_a_slow_function_runs_against_no_deadline_and_one_that_raises_is_no_failure_of_the_agent(open_page):
    def slow(question):
        if question == "raise":
            raise ZeroDivisionError("division by zero")
        time.sleep(1)
        return "Blue."

    env, _ = open_page(PAGE, options={"user": slow, "step_timeout": 0.6})
    obs, *_, info = env.step(QUESTION)
    assert (obs["messages"][-1]["text"], info["outcome"]) == ("Blue.", "running")
    *_, info = env.step({"action": "ask_user", "question": "raise"})
    assert (info["outcome"], info["trainable"]) == ("env_error", False)
    assert info["outcome_detail"] == (
        "the function that answers for the user raised ZeroDivisionError: division by zero"
    )


def test_in_a_vector_one_waits_and_the_others_go_on(tmp_path):
    (tmp_path / "index.html").write_text(f"<title>index</title>{PAGE}")
    said = threading.Event()

    def user(question):
        said.wait(20)
        return "Blue."

    envs = VectorBrowserEnv(2, task=Site(tmp_path), screenshot=False, user=user)
    try:
        envs.reset(seed=0)
        start = time.monotonic()
        _, _, _, _, infos = envs.step([QUESTION, {"action": "click", "id": 2}])
        observations, _, _, _, infos = envs.step([{"action": "click", "id": 2}, {"action": "wait", "ms": 1}])
        assert time.monotonic() - start < 10
        assert list(infos["_waiting"]) == [True, False]
        assert infos["waiting"]["text"][0] == "Which colour?"
        assert observations["title"] == ("index", "read")
        said.set()
        for _ in range(100):
            observations, _, _, _, infos = envs.step([None, {"action": "wait", "ms": 10}])
            if "waiting" not in infos:
                break
        assert observations["messages"][0][-1] == {"role": "user", "text": "Blue."}
    finally:
        said.set()
        envs.close()


def test_asynchronously_an_answer_comes_from_another_task(tmp_path):
    (tmp_path / "index.html").write_text(PAGE)

    async def play():
        async with AsyncBrowserEnv(task=Site(tmp_path), screenshot=False, **LATER) as env:
            await env.reset(seed=0)
            *_, info = await env.step(QUESTION)
            assert info["waiting"]["kind"] == "question"
            obs, *_ = await env.answer("Blue.")
            return obs["messages"][-1]["text"]

    assert runtime().run(play()) == "Blue."


@pytest.mark.parametrize("options", [{"user": "sometimes"}, {"user": 3}])
def test_a_user_who_can_not_be_is_refused(options):
    with pytest.raises(ValueError, match='user must be a function or "later"'):
        AsyncBrowserEnv("data:text/html,x", **options)
    with pytest.raises(ValueError, match=r'Safety\.confirm must be a function, "ask", "later" or None'):
        Safety(confirm="always")


def test_the_example_of_the_docs_is_as_it_stands(capsys):
    text = (Path(__file__).parents[2] / "docs" / "asking.md").read_text(encoding="utf8")
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "docs/asking.md", "exec"), {"__name__": "__main__"})
    said = re.findall(r"print\(.*?\)  # (.*)", code)
    assert capsys.readouterr().out.splitlines() == said
