import json
import re
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from selfsurf.browser_env import BrowserEnv, EpisodeState, Finish
from selfsurf.browser_env.browser.page_script import read_script
from selfsurf.browser_env.goal.check import Finding, SuccessChecker
from selfsurf.browser_env.goal.evidence import Evidence, evidence_of
from selfsurf.browser_env.goal.shown import STRUCTURE
from selfsurf.browser_env.goal.spec import SpecError, read_spec, spec_of
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter
from selfsurf.tasks.goal import GoalTask

SHOP = b"""<title>Shop</title><h1>Mugs</h1><label><input type=checkbox> Gift</label> <button>Order</button><p></p>
<script>document.querySelector('button').onclick = async () => {
  const answer = await fetch('/orders?of=mug', {method: 'POST'});
  document.querySelector('p').textContent = 'Thank you, order ' + await answer.text();
}</script>"""

SPEC = """
goal = "Order the mug as a gift and say the number of the order."
start = "{url}"
criteria = [
    {{ text = "Thank you" }},
    {{ element = {{ role = "checkbox", name = "Gift", states = ["checked"] }} }},
    {{ request = {{ method = "POST", url = "/orders", status = 201 }} }},
    {{ answer = "4711" }},
    {{ element = {{ role = "heading", name = "Mugs", states = ["level=1"] }} }},
]
"""

LONG = "data:text/html,<button>Order</button><div style=height:9000px></div><p>Thank you</p><button>Delete</button>"


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        self._send(200, SHOP)

    def do_POST(self):
        self._send(201, b"4711")

    def _send(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def shop():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def played(shop, folder, names, answer):
    """Click the elements of these names, answer, and return the last info with the episode."""
    path = folder / "mug.toml"
    path.write_text(SPEC.format(url=shop))
    env = BrowserEnv(task=GoalTask(path), screenshot=False)
    try:
        obs, _ = env.reset(seed=0)
        writer = EpisodeWriter(folder / "e", {"goal": obs["goal"]})
        for name in (*names, None):
            element = next((one for one in obs["elements"] if one["name"] == name), None)
            action = (
                {"action": "finish", "answer": answer} if name is None else {"action": "click", "id": element["id"]}
            )
            after, reward, _, _, info = env.step(action)
            writer.step(obs, action, reward=reward, info=info, after=after)
            obs = after
        writer.finish(info["outcome"], trainable=True, after=obs)
    finally:
        env.close()
    return info, Episode(folder / "e"), read_spec(path)


READ = {"method": "GET", "url": "http://shop.test/list", "status": 200}


@pytest.mark.parametrize(
    ("names", "answer", "outcome", "why"),
    [
        (("Gift", "Order"), "It is 4711.", "solved", "has '4711'"),
        (("Gift", "Order"), "Done.", "failed", "lacks '4711'"),
        (("Order",), "4711", "failed", "Gift"),
        (("Gift",), "4711", "failed", "POST /orders was not requested"),
    ],
)
def test_a_goal_is_judged_live_and_from_disk_alike(shop, tmp_path, names, answer, outcome, why):
    info, episode, spec = played(shop, tmp_path, names, answer)
    assert info["outcome"] == outcome
    assert why in info["score"]["reason"]
    judgement = SuccessChecker(spec).judge(evidence_of(episode))
    assert (judgement.says, judgement.why) == (outcome, info["score"]["reason"])
    calls = [one for step in episode.steps() for one in step["requests"]]
    assert calls == ([{"method": "POST", "url": f"{shop}orders?of=mug", "status": 201}] if "Order" in names else [])


def test_an_answer_counts_though_the_page_has_trouble_meanwhile():
    task = GoalTask(spec_of({"goal": "g", "start": "about:blank", "criteria": [{"answer": "4711"}]}, ""))
    page = {"url": "about:blank", "dom": "", "page_text": "", "elements": (), "last_error": ""}
    after = {**page, "last_error": "http://shop.test/next could not be loaded: ERR_CONNECTION_REFUSED."}
    score = task.score_seen(page, after, EpisodeState(last_action=Finish(answer="It is 4711."), finished=True))
    assert (score.done, score.reward) == (True, 1.0), score.details


def test_what_an_episode_does_not_show_is_unknown(shop, tmp_path):
    _, episode, spec = played(shop, tmp_path, ("Gift", "Order"), "4711")
    evidence = evidence_of(episode)
    evidence.moments = [type(one)(one.seen, one.actions, one.error) for one in evidence.moments]
    judgement = SuccessChecker(spec).judge(evidence)
    assert judgement.says == "unknown"
    assert "requests were not recorded" in judgement.why
    evidence.moments = [type(one)(one.seen, one.actions, one.error, [READ] * 50) for one in evidence.moments]
    assert "only some requests were recorded" in SuccessChecker(spec).judge(evidence).why
    evidence.final = None
    assert "no page was recorded" in SuccessChecker(spec).judge(evidence).why


@pytest.mark.parametrize(
    "criterion",
    [
        {"action": {"kind": "click", "element": {"name": "Gift"}}},
        {"element": {"role": "checkbox", "name": "Gift", "states": ["not checked"]}, "at": "before"},
    ],
)
def test_a_failed_action_is_none_on_disk_either(shop, tmp_path, criterion):
    spec = spec_of({"goal": "g", "start": shop, "criteria": [criterion, {"answer": "Done."}]}, "")
    env = BrowserEnv(task=GoalTask(spec), screenshot=False)
    try:
        obs, _ = env.reset(seed=0)
        writer = EpisodeWriter(tmp_path / "e", {"goal": obs["goal"]})
        gift = next(one["id"] for one in obs["elements"] if one["name"] == "Gift")
        clicks = [{"action": "click", "id": one} for one in (gift, 999)]
        for action in (*clicks, {"action": "finish", "answer": "Done."}):
            after, reward, _, _, info = env.step(action)
            writer.step(obs, action, reward=reward, info=info, after=after)
            obs = after
        writer.finish(info["outcome"], trainable=True, after=obs)
    finally:
        env.close()
    assert SuccessChecker(spec).judge(evidence_of(Episode(tmp_path / "e"))).says == info["outcome"] == "solved"


def test_a_model_can_take_success_away_and_not_give_it(shop, tmp_path):
    _, episode, spec = played(shop, tmp_path, ("Gift", "Order"), "4711")
    asked, whole = [], evidence_of(episode)

    def ask(question, evidence):
        asked.append(question)
        return Finding("question", answer, "so it is")

    def judged(*more, of=whole):
        own = spec.model_dump(exclude_defaults=True)
        own["criteria"] = (*own["criteria"], *more, {"question": "Is it so?"})
        return SuccessChecker(spec_of(own, "test"), ask).judge(of).says

    answer = "missed"
    assert judged() == "failed"
    answer = "met"
    assert judged() == "solved"
    assert asked == ["Is it so?"] * 2
    assert judged({"text": "nowhere to be seen"}) == "failed"
    silent = evidence_of(episode)
    silent.moments = silent.moments[:-1]
    assert judged(of=silent) == "failed"
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("criteria = [{ text = 'x' }]", "give a goal"),
        ("goal = 'x'", "criteria"),
        ("goal = 'x'\ncriteria = [{ text = 'x', url = 'y' }]", "exactly one of"),
        ("goal = 'x'\ncriteria = [{ words = 'x' }]", "words"),
        ("goal = 'x'\ncriteria = [{ text = 're:(' }]", "not a regular expression"),
        ("pattern = '(?P<a>.*)'\ncriteria = [{ text = '{b}' }]", "no parameter 'b'"),
        ("goal = ", "not valid TOML"),
    ],
)
def test_a_wrong_specification_says_what_is_wrong(tmp_path, text, why):
    (tmp_path / "s.toml").write_text(textwrap.dedent(text))
    with pytest.raises(SpecError, match=why):
        read_spec(tmp_path / "s.toml")
    with pytest.raises(SpecError, match="can't be read"):
        read_spec(tmp_path / "none.toml")


def test_a_suite_and_a_name_can_mean_a_goal(shop, tmp_path):
    from selfsurf.envs_registry import load_suite, name_of, task_of

    (tmp_path / "mug.toml").write_text(SPEC.format(url=shop))
    task = task_of("selfsurf.tasks.goal:GoalTask", spec=str(tmp_path / "mug.toml"))
    assert (task.id, task_of(name_of(task)).start_url) == ("Goal/mug", shop)
    suite = tmp_path / "suite.toml"
    options = json.dumps(str(tmp_path / "mug.toml"))
    suite.write_text(f'tasks = [{{ id = "selfsurf.tasks.goal:GoalTask", options = {{ spec = {options} }} }}]')
    (goal,) = load_suite(suite).tasks
    assert goal.make().goal == task.goal
    before = goal.fingerprint()
    assert goal.fingerprint() == before
    (tmp_path / "mug.toml").write_text(SPEC.format(url=shop).replace("Thank you", "Sorry"))
    assert goal.fingerprint() != before, "by other criteria it is another task"


def test_giving_up_is_not_paid_though_the_criteria_hold():
    spec = spec_of({"goal": "g", "start": "about:blank", "criteria": [{"url": "about:blank"}]}, "")
    page = {"url": "about:blank", "dom": "", "page_text": "", "elements": (), "last_error": ""}
    gives_up, finishes = EpisodeState(finished=True, infeasible=True), EpisodeState(finished=True)
    assert GoalTask(spec).score_seen(page, page, gives_up).reward == 0.0
    assert GoalTask(spec).score_seen(page, page, finishes).reward == 1.0


def test_a_suite_s_own_errors_are_its_own(tmp_path):
    from selfsurf.envs_registry import load_suite
    from selfsurf.envs_registry.suites import SuiteError

    suite = tmp_path / "shop.py"
    suite.write_text("open('data.csv')")
    with pytest.raises(SuiteError, match=r"shop.py can't be run: FileNotFoundError: .*data.csv"):
        load_suite(suite)
    with pytest.raises(SuiteError, match=r"none.py can't be read: No such file"):
        load_suite(tmp_path / "none.py")


def stands(element, dom, elements=()):
    """What is found of an element on a last page of this outline."""
    spec = spec_of({"goal": "g", "criteria": [{"element": element}]}, "")
    final = {"url": "", "dom": dom, "page_text": "", "elements": elements}
    return SuccessChecker(spec).judge(Evidence("g", final=final)).says


@pytest.mark.parametrize(
    ("element", "says"),
    [
        ({"role": "heading", "name": "Thank you"}, "solved"),
        ({"role": "heading", "name": "Thank you", "states": ["level=1"]}, "solved"),
        ({"role": "heading", "name": "Sorry"}, "failed"),
        ({"role": "heading", "name": "Sorry", "absent": True}, "solved"),
        ({"role": "heading", "name": "Thank you", "absent": True}, "failed"),
        ({"role": "heading", "nth": 2, "name": "Yours"}, "solved"),
        ({"role": "heading", "name": "Forged"}, "failed"),
        ({"role": "cell", "name": "4711"}, "solved"),
        ({"name": "Thank you"}, "solved"),
        ({"name": "4711", "absent": True}, "failed"),
        ({"name": "Yours", "tag": "h2"}, "solved"),
        ({"name": "Sorry"}, "failed"),
        ({"tag": "h1"}, "unknown"),
        ({"role": "paragraph", "name": "Bye"}, "unknown"),
        ({"role": "button", "name": "Bye"}, "failed"),
    ],
)
def test_what_has_no_id_counts_too(element, says):
    yours = {"id": 3, "role": "heading", "name": "Yours", "tag": "h2", "states": ()}
    dom = 'heading "Thank you" level=1\n  Bye\n[3] heading "Yours"\ncell: 4711\ntext "heading \\"Forged\\""'
    assert stands(element, dom, [yours]) == says


def test_a_heading_is_not_missed_where_only_changes_were_recorded():
    assert stands({"role": "heading", "name": "Thank you"}, "no change") == "unknown"
    assert stands({"role": "button", "name": "Order"}, "no change") == "unknown"  # the page may go on
    assert stands({"name": "Thank you"}, "no change") == "unknown"
    assert stands({"role": "heading", "name": "Thank you"}, "Mugs\n... the page goes on") == "unknown"
    assert stands({"role": "heading", "name": "Thank you"}, "Mugs\n... and more") == "failed"


@pytest.mark.parametrize(
    ("criterion", "says"),
    [
        ({"element": {"role": "button", "name": "Delete"}}, "unknown"),
        ({"element": {"role": "button", "name": "Delete", "absent": True}}, "unknown"),
        ({"element": {"role": "heading", "name": "Delete"}}, "unknown"),
        ({"element": {"tag": "button", "name": "Delete"}}, "unknown"),
        ({"element": {"role": "button", "name": "Order"}}, "solved"),
        ({"element": {"role": "button", "name": "Order", "absent": True}}, "failed"),
        ({"text": "Thank you"}, "unknown"),
        ({"text": "Thank you", "at": "ever"}, "unknown"),
        ({"text": "Order"}, "solved"),
        ({"element": {"role": "button", "names": "wanted"}}, "unknown"),
    ],
)
def test_beyond_the_observed_part_of_a_long_page_anything_may_be(criterion, says):
    env = BrowserEnv(start_url=LONG, goal="g", screenshot=False)
    try:
        final, _ = env.reset(seed=0)
    finally:
        env.close()
    listed = {"pattern": "(?P<wanted>.*)", "lists": {"wanted": ", "}}
    spec = spec_of({"goal": "Order", **listed, "criteria": [criterion]}, "")
    assert SuccessChecker(spec).judge(Evidence("Order", final=final)).says == says


@pytest.mark.parametrize("obs_mode", ["full", "delta"])
def test_a_goal_is_judged_alike_where_observations_hold_changes(obs_mode):
    page = (
        "<h1>Pay</h1><button onclick=\"document.querySelector('h1').textContent='Thanks'\">Go</button>" + "<p>Line" * 20
    )
    spec = {
        "goal": "g",
        "start": f"data:text/html,{page}",
        "criteria": [{"element": {"role": "heading", "name": "Thanks"}}],
    }
    gone = {"element": {"role": "link", "name": "Old", "absent": True}}
    long = {**spec, "start": f"{spec['start']}<div style='height:9000px'></div><a href=x>Old</a>"}
    for given, reward in ((spec, 1.0), ({**long, "criteria": [*spec["criteria"], gone]}, 0.0)):
        env = BrowserEnv(task=GoalTask(spec_of(given, "")), screenshot=False, obs_mode=obs_mode)
        try:
            env.reset(seed=0)
            obs, paid, *_ = env.step({"action": "click", "id": 1})
        finally:
            env.close()
        assert ("changed:" in obs["dom"]) is (obs_mode == "delta")
        assert paid == reward


@pytest.mark.parametrize("where", ["id", "selector", "point"])
def test_a_click_counts_by_whatever_it_names_its_element(where):
    spec = {
        "goal": "g",
        "start": "data:text/html,<button>Go</button>",
        "criteria": [{"action": {"kind": "click", "element": {"role": "button", "name": "Go"}}}],
    }
    env = BrowserEnv(task=GoalTask(spec_of(spec, "")), screenshot=False)
    try:
        obs, _ = env.reset(seed=0)
        left, top, width, height = obs["elements"][0]["bbox"]
        by = {
            "id": {"id": 1},
            "selector": {"selector": "button"},
            "point": {"x": left + width / 2, "y": top + height / 2},
        }
        _, reward, *_ = env.step({"action": "click", **by[where]})
    finally:
        env.close()
    assert reward == 1.0


def test_a_goals_own_words_are_no_regular_expression():
    spec = spec_of({"goal": "Open re: (a", "pattern": "Open (?P<mail>.*)", "criteria": [{"text": "{mail}"}]}, "")
    for text, says in (("Mail re: (a is here", "solved"), ("Mail", "failed")):
        page = {"url": "", "dom": "", "page_text": text, "elements": ()}
        assert SuccessChecker(spec).judge(Evidence("Open re: (a", final=page)).says == says


def test_a_text_that_was_cut_may_go_on():
    spec = spec_of({"goal": "g", "criteria": [{"text": "Thank you"}]}, "")
    page = {"url": "", "dom": "", "page_text": "Sorry\n... cut: the page is longer than 1000000 characters"}
    assert SuccessChecker(spec).judge(Evidence("g", final=page)).says == "unknown"
    page["page_text"] = "... cut: the page is longer than it seems"
    assert SuccessChecker(spec).judge(Evidence("g", final=page)).says == "failed"


def test_roles_without_an_id_are_those_of_the_outline():
    script = read_script("roles")
    own = script.partition("const STRUCTURE = new Set((")[2].partition(").split")[0]
    assert set(re.findall(r"[a-z]+", own)) == STRUCTURE - {"iframe"}
