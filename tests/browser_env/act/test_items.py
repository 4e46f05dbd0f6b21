"""Items of trees, lists and menus: clicked at their words, reached by keys through what holds them, named by their beginning."""

import pytest

from tests.few import few
from tests.in_page import value

WIDE = {
    "tree": ("<ul role=tree tabindex=0 id=t><li role=treeitem aria-expanded=false><span>Fruit</span></ul>", "treeitem"),
    "files": ("<ul id=t><li tabindex=0><img width=16 height=16 alt=''> <b>Fru</b>it</ul>", "listitem"),
    "cut": ("<style>span{display:block;width:15px;overflow:hidden;white-space:nowrap}</style><ul role=tree id=t><li role=treeitem tabindex=-1><i style='position:absolute;clip:rect(0,0,0,0);width:1px;height:1px;overflow:hidden'>Kind</i><span>Fruit</span></ul>", "treeitem"),
    "menu": ("<div role=menu id=t><div role=menuitem tabindex=-1><i>&nbsp;</i><span>Fruit</span></div></div>", "menuitem"),
    "options": ("<div role=listbox id=t><div role=option><input type=checkbox aria-label=Mark> <span>Fruit</span></div></div>", "option"),
}  # fmt: skip


@pytest.mark.parametrize("kind", few(2, WIDE))
def test_an_item_as_wide_as_the_page_is_clicked_at_its_words(open_page, kind):
    html, role = WIDE[kind]
    env, obs = open_page(f"{html}<script>t.onclick = (e) => document.title = e.target.localName</script>")
    item = next(one["id"] for one in obs["elements"] if one["role"] == role)
    obs, *_ = env.step({"action": "click", "id": item})
    assert (obs["last_error"], obs["title"]) == ("", "b" if kind == "files" else "span")


TREE = """<style>ul{{padding-left:20px}} #t {{height:150px;overflow:auto}}</style><ul role=tree id=t>
<li role=treeitem aria-expanded=true id=a tabindex=-1><span>Fruit</span><ul role=group>{}</ul></ul>
<script>t.onclick = (e) => document.title = e.target.closest('[role=treeitem]').querySelector('span').textContent; t.scrollTop = {}</script>"""


@pytest.mark.parametrize(("count", "scrolled"), [(1, 0), (40, 0), (40, 400)])
def test_an_item_that_holds_others_is_clicked_itself(open_page, count, scrolled):
    children = "".join(f"<li role=treeitem tabindex=-1><span>Kind {n}</span>" for n in range(count))
    env, _ = open_page(TREE.format(children, scrolled))
    obs, *_ = env.step({"action": "click", "selector": "#a"})
    assert (obs["last_error"], obs["title"]) == ("", "Fruit")


def test_a_button_and_an_item_in_a_control_of_its_own_are_clicked_in_the_middle(open_page):
    env, _ = open_page(
        """<div role=option id=a tabindex=0 style="width:400px"><a href="#x">Words</a></div><button id=b style="width:400px;text-align:left">Go</button>
        <script>onclick = (e) => document.title = e.clientX</script>"""
    )
    for target in ("#a", "#b"):
        assert 195 <= int(env.step({"action": "click", "selector": target})[0]["title"]) <= 215


HOLDERS = {
    "tree that takes the focus": """<ul role=tree tabindex=0 id=t><li role=treeitem tabindex=-1><span>One</span><li role=treeitem tabindex=-1><span>Two</span></ul>
        <script>let at = 0; t.addEventListener('focusin', (e) => { if (e.target != t) t.focus() }); t.onclick = (e) => at = [...t.children].indexOf(e.target.closest('li'));
        t.onkeydown = (e) => document.title = e.key + at</script>""",
    "grid": """<div role=grid tabindex=0 id=t><div role=row><div role=gridcell onclick="at = 0">One</div><div role=gridcell onclick="at = 1">Two</div></div></div>
        <script>let at = 0; t.onkeydown = (e) => document.title = e.key + at</script>""",
    "menu": """<div role=menu tabindex=0 id=t><div role=menuitem>One</div><div role=menuitem>Two</div></div>
        <script>let at = 0; t.onmousedown = (e) => at = e.target.textContent == 'Two' ? 1 : 0; t.onkeydown = (e) => document.title = e.key + at</script>""",
    "listbox that names the active one": """<div role=listbox tabindex=0 id=t aria-activedescendant=b><div role=option>One</div><div role=option id=b>Two</div></div>
        <script>t.focus(); t.onclick = () => { throw 1 }; t.onkeydown = (e) => document.title = e.key + 1</script>""",
}  # fmt: skip


@pytest.mark.parametrize("holder", few(2, HOLDERS))
def test_a_key_for_an_item_goes_to_what_holds_it(open_page, by_name, holder):
    env, obs = open_page(HOLDERS[holder])
    obs, *_ = env.step({"action": "press", "key": "ArrowRight", "id": by_name(obs, "Two")["id"]})
    assert (obs["last_error"], obs["title"], list(obs["events"])) == ("", "ArrowRight1", [])


def test_a_key_for_an_item_goes_to_no_other_list(open_page, by_name):
    env, obs = open_page(
        """<ul role=tree tabindex=0 id=t><li role=treeitem>Other</ul><ul role=tree id=u><li role=treeitem tabindex=-1 onfocus="t.focus()">Two</ul>
        <script>onkeydown = (e) => document.title = e.key</script>"""
    )
    obs, *_ = env.step({"action": "press", "key": "ArrowRight", "id": by_name(obs, "Two")["id"]})
    assert "The page moved the focus to [1] tree" in obs["last_error"]
    assert obs["title"] == "index"


NATIVE = "<select aria-label=Land onchange='document.title = this.value'><option value=x>-{}</select>"
OWN = """<div role=combobox tabindex=0 aria-label=Land aria-expanded=false aria-controls=l onclick="l.hidden = false">-</div>
<ul role=listbox id=l hidden onclick="document.title = event.target.textContent">{}</ul>"""
LISTS = {
    "native": (NATIVE, "<option>{}"),
    "suggestions": ("<input aria-label=Land list=d oninput='document.title = this.value'><datalist id=d>{}</datalist>", "<option>{}"),
    "own": (OWN, "<li role=option>{}"),
}  # fmt: skip


@pytest.mark.parametrize("kind", few(1, LISTS))
def test_an_option_is_named_by_how_it_alone_begins(open_page, by_name, kind):
    page, option = LISTS[kind]
    names = ("Germany (+49)", "Germanyland", "Guinea", "Guinea (+224)", "Congo (Kinshasa)", "Congo (Brazzaville)")
    env, obs = open_page(page.format("".join(option.format(name) for name in names)))
    land = by_name(obs, "Land")["id"]
    for wanted, chosen in (("germany", "Germany (+49)"), ("Guinea", "Guinea")):
        obs, *_ = env.step({"action": "select", "id": land, "options": [wanted]})
        assert (obs["last_error"], value(env, "document.title")) == ("", chosen)
    obs, *_ = env.step({"action": "select", "id": land, "options": ["Congo"]})
    assert "Congo (Kinshasa)" in obs["last_error"]
    assert "Congo (Brazzaville)" in obs["last_error"]
    assert obs["title"] == "Guinea"
    obs, *_ = env.step({"action": "select", "id": land, "options": ["Germ"]})
    assert "Germ" in obs["last_error"]


SPELLINGS = {
    "GERMANY": "Germany (+49)",
    " germany ": "Germany (+49)",
    "Germany:": "Germany (+49)",
    '"Germany"': "Germany (+49)",
    "\u201cGermany (+49)\u201d": "Germany (+49)",
    "cote d'ivoire": "Cote d\u2019Ivoire",
    "Guinea-Bissau": "Guinea \u2013 Bissau",
    "bosnia - herzegovina": "Bosnia\u2013Herzegovina",
    "New\u00a0Zealand": "New Zealand",
    "Kind": "Kind:",
    "1.5 KG": "1.5\u00a0kg",
    "us": "us",
    "US": "US",
}
"""What a person writes, and the option that is meant."""


@pytest.mark.parametrize("kind", few(1, LISTS))
def test_an_option_is_found_as_a_person_spells_it(open_page, by_name, kind):
    page, option = LISTS[kind]
    names = "".join(option.format(name) for name in dict.fromkeys(SPELLINGS.values()))
    env, obs = open_page("<meta charset=utf-8>" + page.format(names))
    land, chosen = by_name(obs, "Land")["id"], {}
    for wanted in SPELLINGS:
        value(env, "document.title = ''")
        obs, *_ = env.step({"action": "select", "id": land, "options": [wanted]})
        chosen[wanted] = obs["last_error"] or value(env, "document.title").replace("\u00a0", " ")
    assert chosen == {wanted: name.replace("\u00a0", " ") for wanted, name in SPELLINGS.items()}
    value(env, "document.title = ''")
    for wanted, offered in (("Us", ("us", "US")), ("1", ("1.5 kg",))):
        obs, *_ = env.step({"action": "select", "id": land, "options": [wanted]})
        assert all(name in obs["last_error"].replace("\u00a0", " ") for name in offered), (wanted, obs["last_error"])
    assert value(env, "document.title") == ""


def test_an_option_further_down_that_is_just_the_text_comes_first(open_page, by_name):
    """A list that draws a part of its options may show one that begins so first."""
    env, obs = open_page(
        """<div id=l role=listbox aria-label=Land style="height:60px;overflow:auto" onclick="document.title = event.target.textContent"><div style="height:3000px"></div></div>
        <script>const draw = () => { const at = Math.floor(l.scrollTop / 20); for (const one of l.querySelectorAll('[role=option]')) one.remove();
        for (let n = at; n < at + 4 && n < 150; n++) l.insertAdjacentHTML('beforeend', `<div role=option style="position:absolute;top:${n * 20}px">${n == 2 ? 'Guinea (+1)' : n == 90 ? 'Guinea' : 'Land ' + n}</div>`) };
        l.style.position = 'relative'; l.onscroll = draw; draw()</script>"""
    )
    obs, *_ = env.step({"action": "select", "id": by_name(obs, "Land")["id"], "options": ["Guinea"]})
    assert (obs["last_error"], obs["title"]) == ("", "Guinea")


def test_a_drag_takes_and_reaches_items_in_the_middle(open_page):
    env, _ = open_page(
        """<ul style="user-select:none"><li id=a style="height:100px">A<li id=b style="height:100px">B</ul>
        <script>onmousedown = (e) => at = [e.clientX, e.clientY]; onmouseup = (e) => document.title = [a, b].map((li, n) => { const box = li.getBoundingClientRect(),
        [x, y] = n ? [e.clientX, e.clientY] : at; return Math.abs(box.left + box.width / 2 - x) < 2 && Math.abs(box.top + box.height / 2 - y) < 2 })</script>"""
    )
    obs, *_ = env.step({"action": "drag", "from": "#a", "to": "#b"})
    assert obs["title"] == "true,true"
