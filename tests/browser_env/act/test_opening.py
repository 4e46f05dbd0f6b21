"""Popups that take no pointer while they open are waited for; what takes none anyway is not."""

import pytest

from selfsurf.browser_env import SessionOptions
from tests.few import few
from tests.processes import crowd

HELD = "<span style='cursor:pointer' onclick=\"o.textContent='no'\">No</span> <button onclick=\"o.textContent='ok'\">OK</button>"
MOVES = """<style>@keyframes p { from { opacity: 0; transform: scale(.8) } }
@keyframes q { to { opacity: 0 } }
.zoom { animation: p .25s; pointer-events: none }
.from { opacity: 0 } .active { transition: opacity .25s; pointer-events: none }
.enter { transform: scale(0); animation: .25s both paused }
.enter.grow { animation-name: p; animation-play-state: running }
.out { animation: q .25s forwards; pointer-events: none; position: absolute }
</style><button id=b>Delete</button><p id=o>none</p>"""
POPUPS = {
    "an animation": f"<div id=m hidden onanimationend=\"m.className = ''\">{HELD}</div><script>b.onclick = () => {{ m.hidden = false; m.className = 'zoom' }}</script>",
    "a transition": f"<div id=m class='from active' ontransitionend=\"m.className = ''\">{HELD}</div><script>b.onclick = () => {{ m.className = 'active' }}</script>",
    "one that is inserted": f"""<script>b.onclick = () => {{ const m = document.createElement('div'); m.innerHTML = `{HELD}`;
      m.className = 'zoom'; m.onanimationend = () => m.className = ''; document.body.append(m) }}</script>""",
    "one that begins in the second frame": f"""<script>b.onclick = () => {{ const m = document.createElement('div'); m.innerHTML = `{HELD}`;
      m.className = 'from active'; document.body.append(m); m.ontransitionend = () => m.className = '';
      requestAnimationFrame(() => requestAnimationFrame(() => m.className = 'active')) }}</script>""",
    "one that a script animates": f"""<div id=m hidden>{HELD}</div><script>b.onclick = () => {{ m.hidden = false; m.style.pointerEvents = 'none';
      m.animate([{{opacity: 0}}, {{}}], 250).onfinish = () => m.style.pointerEvents = '' }}</script>""",
    "one that grows out of nothing some frames later": f"""<div id=m class=enter hidden onanimationend="m.className = ''">{HELD}</div><script>
      const later = (frames) => {{ if (frames) requestAnimationFrame(() => later(frames - 1)); else m.classList.add('grow') }}; b.onclick = () => {{ m.hidden = false; later(5) }}</script>""",
    "one that is told a moment later": f"""<div id=m hidden onanimationend="setTimeout(() => m.className = '', 30)">{HELD}</div>
      <script>b.onclick = () => {{ m.hidden = false; m.className = 'zoom' }}</script>""",
    "one in a panel that moves": f"""<div id=m hidden class=zoom style='pointer-events:auto'><div id=n style='pointer-events:none'><p id=i>{HELD}</p></div></div>
      <script>b.onclick = () => {{ m.hidden = false; i.className = 'zoom'; i.onanimationend = () => {{ n.style = ''; i.className = '' }} }}</script>""",
    "one after another": f"""<div id=l style='width:200px'><a href=#old>Old</a></div><div id=m hidden>{HELD}</div><script>
      b.onclick = () => {{ l.className = 'out'; l.onanimationend = () => l.remove(); m.hidden = false; m.className = 'zoom'; m.onanimationend = () => m.className = '' }}</script>""",
    "a shadow root": f"""<div id=h></div><script>const r = h.attachShadow({{mode: 'open'}}); b.onclick = () => {{
      r.innerHTML = `<style>@keyframes p {{ from {{ opacity: 0 }} }} .zoom {{ animation: p .25s; pointer-events: none }}</style><div class=zoom>{HELD}</div>`;
      r.lastChild.onanimationend = () => r.lastChild.className = '' }}</script>""",
}  # fmt: skip


@pytest.mark.parametrize("screenshot", few(1, [False, True]))
@pytest.mark.parametrize("how", POPUPS)
def test_a_popup_that_takes_no_pointer_while_it_opens_can_be_used_when_it_is_seen(open_page, by_name, how, screenshot):
    env, obs = open_page(MOVES + POPUPS[how], options={"screenshot": screenshot})
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Delete")["id"]})
    assert not any(element["name"] == "Old" for element in obs["elements"]), obs["dom"]
    for name, text in {"OK": "ok", "No": "no"}.items():
        assert by_name(obs, name)["states"] == (), obs["dom"]
        obs, *_ = env.step({"action": "click", "id": by_name(obs, name)["id"]})
        assert (obs["last_error"], text in obs["page_text"].split()) == ("", True)


def test_a_popup_in_a_frame_is_waited_for(open_page, by_name):
    env, obs = open_page("<iframe src=inner.html></iframe>", inner=MOVES + POPUPS["an animation"])
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Delete")["id"]})
    assert [by_name(obs, name)["states"] for name in ("No", "OK")] == [(), ()], obs["dom"]


def test_a_popup_that_opens_on_a_key_is_waited_for(open_page, by_name):
    env, obs = open_page(f"<input aria-label=Q oninput='b.click()'>{MOVES}{POPUPS['an animation']}")
    obs, *_ = env.step({"action": "type", "id": by_name(obs, "Q")["id"], "text": "a"})
    assert by_name(obs, "No")["states"] == (), obs["dom"]


def test_an_option_of_a_list_that_a_script_animates_is_chosen(open_page, by_name):
    """The list can be seen before it takes the pointer, within one action."""
    env, obs = open_page(
        """<div id=b role=combobox tabindex=0 aria-label=City aria-expanded=false aria-controls=l>-</div><ul id=l role=listbox hidden><li role=option>Bern</ul>
        <script>b.onclick = () => setTimeout(() => { l.hidden = false; l.style.pointerEvents = 'none'; l.animate([{scale: .9}, {}], 450).onfinish = () => { l.style.pointerEvents = '' } }, 50);
        l.onclick = (e) => document.title = e.target.textContent</script>"""
    )
    obs, *_ = env.step({"action": "select", "id": by_name(obs, "City")["id"], "options": ["Bern"]})
    assert (obs["last_error"], obs["title"]) == ("", "Bern")


def test_a_button_behind_a_dialog_and_a_backdrop_that_fade_one_after_the_other_is_clicked_by_the_mouse(open_page):
    env, _ = open_page(
        """<style>.over { position: fixed; inset: 0 } #m { transition: opacity .3s, visibility 0s .3s } #dim { transition: opacity .3s .5s, visibility 0s .8s }
        .gone { opacity: 0; visibility: hidden }</style><button onclick="document.title = event.isTrusted">More</button>
        <div class=over id=dim></div><div class=over id=m><button onclick="m.className = dim.className = 'over gone'">Shut</button></div>"""
    )
    env.step({"action": "click", "selector": "text=Shut"})
    obs, *_, info = env.step({"action": "click", "selector": "text=More"})
    assert (obs["last_error"], obs["title"], info["action_path"]) == ("", "true", "mouse")


ONLY_LOOKS = {
    "a ripple": "<button onclick=\"this.innerHTML = 'Go<span class=fade style=position:absolute;width:9px;height:9px></span>'\">Go</button>",
    "a tooltip": "<button onclick='t.hidden = false'>Go</button><div id=t class=fade hidden>A hint</div>",
    "an ornament": "<button onclick=\"t.className = 'ever'\">Go</button><div id=t><a href=#x>more</a></div>",
    "a link that nobody can click": "<button onclick=\"t.style.pointerEvents = 'none'\">Go</button><div id=t><a href=#x>more</a></div>",
    "one that is scaled to nothing": "<button onclick=\"t.style.transform = 'scale(0)'\">Go</button><div id=t style='transition: transform 9s'><a href=#x>more</a></div>",
    "a slow one": "<button onclick=\"t.className = 'slow'\">Go</button><div id=t><a href=#x>more</a></div>",
}


@pytest.mark.parametrize("what", ONLY_LOOKS)
def test_what_only_looks_as_if_it_opened_is_not_waited_for(open_page, by_name, what):
    env, obs = open_page(
        f"""<style>@keyframes f {{ to {{ opacity: .5 }} }} .fade {{ animation: f .45s; pointer-events: none }}
        .ever {{ animation: f .3s infinite; pointer-events: none }} .slow {{ animation: f 9s; pointer-events: none }}</style>{ONLY_LOOKS[what]}"""
    )
    *_, info = env.step({"action": "click", "id": by_name(obs, "Go")["id"]})
    assert info["timing"]["settle"] < 350 * crowd()


def test_links_that_never_take_the_pointer_are_waited_for_once(open_page, by_name):
    env, obs = open_page(
        """<style>@keyframes f { to { opacity: .5 } } .fade { animation: f .45s; pointer-events: none }</style>
        <button onclick="t.className = ''; t.offsetWidth; t.className = 'fade'">Go</button><div id=t><a href=#x>more</a></div>"""
    )
    go = {"action": "click", "id": by_name(obs, "Go")["id"]}
    waits = [env.step(go)[-1]["timing"]["settle"] for _ in range(3)]
    assert min(waits) < 350 * crowd()


def test_a_page_without_scripts_is_not_waited_for(make, loopback):
    server = loopback(
        lambda _: (
            b"""<style>@keyframes f { from { opacity: .5 } } a { animation: f .4s; pointer-events: none }</style><a href=#x>more</a>"""
        )
    )
    _, obs = make(server.url, SessionOptions(javascript=False))
    assert "more" in obs["dom"]
