"""Trials of widgets of npm's libraries, each by ids of the observation alone, as an agent makes a gesture.

    .venv/bin/python -m pytest --slow tests/browser_env/act/test_libraries.py [-k antd] [--json FILE]

The run ends with a table by kind and library. The packages come from npm once, into the cache; without npm the trials
are skipped. A verdict other than the expected one fails, so a known fault that is mended has to leave the table.
"""

import hashlib
import json
import mimetypes
import re
import shutil
import subprocess

import pytest

from selfsurf import browser_env
from selfsurf.browser_env.browser.browsers import cache_home
from tests.browser_env.act.libraries import TRIALS, VERSIONS
from tests.in_page import value

pytestmark = pytest.mark.slow
HANDS = {"click", "fill", "type", "select", "hover", "drag", "upload", "id", "to"}
"""Keys of a compact action whose value is an element."""
PICTURE = b"<svg xmlns='http://www.w3.org/2000/svg' width='400' height='300'><rect width='400' height='300'/></svg>"


@pytest.fixture(scope="session")
def packages():
    folder = cache_home() / "gestures"
    folder.mkdir(parents=True, exist_ok=True)

    def installed(name):
        manifest = folder / "node_modules" / name / "package.json"
        return json.loads(manifest.read_text(encoding="utf8"))["version"] if manifest.exists() else None

    wanted = [f"{name}@{version}" for name, version in VERSIONS.items() if installed(name) != version]
    if wanted:
        if not shutil.which("npm"):
            pytest.skip("npm is not installed")
        npm = ["npm", "install", "--no-audit", "--no-fund", "--legacy-peer-deps", *wanted]
        if subprocess.run(npm, cwd=folder, capture_output=True, check=False).returncode:
            pytest.skip("npm could not install the packages")
    return folder


def bundled(folder, script):
    """Return the tags of a script that imports packages, bundled by esbuild into the cache once."""
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    if not (folder / f"{name}.bundle.js").exists():
        command = [
            "node_modules/.bin/esbuild", f"{name}.jsx", "--bundle", "--jsx=automatic", "--log-level=error",
            "--define:process.env.NODE_ENV='production'", f"--outfile={name}.bundle.js",
        ]  # fmt: skip
        (folder / f"{name}.jsx").write_text(script, encoding="utf8")
        subprocess.run(command, cwd=folder, check=True)
    style = f"<link rel=stylesheet href=/{name}.bundle.css>" if (folder / f"{name}.bundle.css").exists() else ""
    return f"{style}<script src=/{name}.bundle.js></script>"


@pytest.fixture
def opened(packages, loopback, make, tmp_path):
    """Return a function that opens a trial's page: `env, obs = opened(trial)`."""
    (tmp_path / "note.txt").write_text("note")

    def open_it(trial):
        body, _, script = trial.page.partition("<script>")
        script = script.removesuffix("</script>")
        styles = "".join(
            f"<link rel=stylesheet href=/node_modules/{file}>" for file in trial.files if file.endswith("css")
        )
        sources = "".join(f"<script src=/node_modules/{file}></script>" for file in trial.files if file.endswith("js"))
        own = bundled(packages, script) if "import " in script else f"<script>{script}</script>"
        page = f"<!doctype html><meta charset=utf-8><title>page</title>{styles}{body}{sources}{own}"

        def answer(request):
            path = request.path.partition("?")[0]
            if path == "/":
                return page.encode()
            if path == "/picture.svg":
                return 200, {"content-type": "image/svg+xml"}, PICTURE
            file = packages / path.lstrip("/")
            if not file.is_file():
                return 404, {}, b""
            return 200, {"content-type": mimetypes.guess_type(file.name)[0] or "text/plain"}, file.read_bytes()

        safety = browser_env.Safety(upload_from=(tmp_path,))
        env, _ = make(loopback(answer).url, viewport=(900, 700), safety=safety)
        return env, env.step({"wait": 300})[0]

    return open_it


def element(obs, target):
    """Return the element of an observation with a name, or a `role:name`: a pattern, and `#-1` for the last match."""
    pattern, _, index = target.partition("#")
    matches = [
        one for one in obs["elements"] if any(re.fullmatch(pattern, name) for name in (one["name"], f"{one['role']}:{one['name']}"))
    ]  # fmt: skip
    if not matches or (len(matches) > 1 and not index) or int(index or 0) >= len(matches):
        raise LookupError(f"{len(matches)} elements are called {target}:\n{obs['dom']}")
    return matches[int(index or 0)]


def with_ids(action, obs, files):
    """Return a compact action with the ids of its elements; `by` turns into a point."""
    named = {
        key: element(obs, target)
        for key, target in action.items()
        if key in HANDS and isinstance(target, str) and not target.startswith("text=") and (key != "type" or "text" in action)
    }  # fmt: skip
    action = {**action, **{key: one["id"] for key, one in named.items()}}
    if str(action.get("click")).startswith("text="):
        action = {"action": "click", "selector": action["click"]}
    if "by" in action:
        x, y, width, height = named["drag"]["bbox"]
        dx, dy = action.pop("by")
        action["to"] = [x + width / 2 + dx, y + height / 2 + dy]
    if "file" in action:
        action["file"] = str(files / action["file"])
    return action


def judge(env, obs, trial, files):
    """Return the verdict on a trial and the reason for it."""
    words = []
    for step in trial.gesture:
        if isinstance(step, str):
            if not value(env, f"(() => {{ try {{ return {step} }} catch {{ return false }} }})()"):
                return "wrong", f"not so: {step}\n{words}\n{obs['dom']}"
        elif isinstance(step, set):
            if missing := [word for word in step if word not in obs["dom"] and word not in obs["page_text"]]:
                return "wrong", f"not seen: {missing}\n{words}\n{obs['dom']}"
        else:
            try:
                action = with_ids(step, obs, files)
            except LookupError as error:
                return "wrong", f"{error}\n{words}"
            words += ["needs a wait"] if "wait" in step else []
            words += [f"{target}: no id" for target in step.values() if str(target).startswith("text=")]
            obs, *_ = env.step(action)
            words += [
                text for text in (obs["last_error"], *obs["events"]) if text and not text.startswith("navigated: ")
            ]
    told = [text for text in words if not (trial.told and re.search(re.escape(trial.told), text))]
    return ("awkward", "\n".join(told)) if told else ("right", "")


@pytest.mark.parametrize("trial", TRIALS, ids=str)
def test_a_gesture(opened, tmp_path, trial, record_property):
    env, obs = opened(trial)
    verdict, reason = judge(env, obs, trial, tmp_path)
    expected, _, known = trial.expected.partition(": ")
    row = {"kind": trial.kind, "library": trial.library, "version": VERSIONS[trial.library], "way": trial.way}
    record_property("gesture", {**row, "verdict": verdict, "reason": known if verdict == expected else reason})
    assert verdict == expected, reason


@pytest.mark.parametrize("library", ["codemirror", "monaco-editor", "ace-builds"])
def test_two_thousand_lines_of_code(opened, library):
    trial = next(one for one in TRIALS if one.library == library)
    env, obs = opened(trial)
    text = "\n".join(f"{'    ' * (i % 4)}line {i}" for i in range(2000))
    obs, *_, info = env.step({"fill": element(obs, "textbox:.*")["id"], "text": text})
    read = {
        "codemirror": "editor.state.doc.toString()",
        "monaco-editor": "mon.getValue()",
        "ace-builds": "ed.getValue()",
    }
    assert (obs["last_error"], value(env, read[library])) == ("", text)
    assert info["timing"]["act"] < 2000
