import json

from selfsurf.browser_env.record.episode import Episode, EpisodeWriter

PAGE = "<input aria-label=Name value='Grace Hopper'><p>Write to ada@example.org</p><input aria-label=city><p id=shown></p><script>document.querySelectorAll('input')[1].oninput = (e) => shown.textContent = 'You live in ' + e.target.value</script>"


def test_an_episode_that_is_redacted_in_full_has_nothing_private_in_any_byte(open_page, by_name, tmp_path):
    env, obs = open_page(PAGE)
    writers = {
        extent: EpisodeWriter(tmp_path / extent, {"seed": 0, "redacted": extent}) for extent in ("full", "secrets")
    }
    for action in (
        {"action": "fill", "id": by_name(obs, "city")["id"], "text": "Zwiebelstadt"},
        {"action": "wait", "ms": 10},
    ):
        after, reward, _, _, info = env.step(action)
        reply = {
            "text": json.dumps(action),
            "prompt": [{"role": "user", "text": obs["dom"]}],
            "prompt_token_ids": [1, 2],
            "token_ids": [3],
            "logprobs": [0.0],
        }
        for writer in writers.values():
            writer.step(obs, action, reward=reward, info=info, after=after, completions=[reply])
        obs = after
    for writer in writers.values():
        writer.finish("stopped", trainable=True, after=obs)
    written = {
        extent: b"".join(one.read_bytes() for one in (tmp_path / extent).rglob("*") if one.is_file())
        for extent in writers
    }
    for private in (b"Grace", b"Zwiebel", b"ada@"):
        assert private in written["secrets"]
        assert private not in written["full"]
    assert not list((tmp_path / "full").rglob("*.png"))
    full = Episode(tmp_path / "full")
    assert (full.meta["redacted"], full.meta["trainable"], full.damage()) == ("full", False, [])
    steps = list(full.steps())  # all of the format's types
    assert steps[0]["actions"] == [{"action": "fill", "id": steps[0]["actions"][0]["id"], "text": "<value>"}]
    assert steps[0]["completions"][0]["token_ids"] == []
    assert "You live in <value>" in steps[1]["observation"]["page_text"]
    assert Episode(tmp_path / "secrets").meta["redacted"] == "secrets"
