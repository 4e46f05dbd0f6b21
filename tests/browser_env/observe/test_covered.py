"""What is partly free is not covered, wherever the free part is; what a panel covers costs little to find out."""

import pytest

from selfsurf.browser_env.browser.runtime import runtime

BUTTON = (
    "<button id=f aria-label=F style='position:absolute;left:100px;top:100px;width:200px;height:100px%s'>%s</button>"
)
PANEL = "<div style='position:absolute;background:#ccc;%s'>%s</div>"
OVER = "left:50px;top:50px;width:400px;height:300px"
PLAIN = BUTTON % ("", "Go")
FREE = {
    "a strip beside a panel": PLAIN + PANEL % ("left:50px;top:50px;width:234px;height:300px", ""),
    "a strip above a panel": PLAIN + PANEL % ("left:50px;top:108px;width:400px;height:300px", ""),
    "a gap between panels": PLAIN + PANEL % ("left:50px;top:50px;width:156px;height:300px", "") + PANEL % ("left:230px;top:50px;width:300px;height:300px", ""),
    "a corner beside two panels": PLAIN + PANEL % ("left:50px;top:50px;width:230px;height:300px", "") + PANEL % ("left:50px;top:120px;width:400px;height:300px", ""),
    "a corner of a round panel": PLAIN + PANEL % ("left:100px;top:100px;width:200px;height:100px;border-radius:50%", ""),
    "the corners of a turned panel": PLAIN + PANEL % ("left:130px;top:80px;width:140px;height:140px;transform:rotate(45deg)", ""),
    "a hole in a panel": PLAIN + PANEL % (OVER + ";clip-path:path(evenodd,'M0,0 H400 V300 H0 Z M60,60 H90 V90 H60 Z')".replace("'", "&quot;"), ""),
    "a panel that lets the mouse through": PLAIN + PANEL % (OVER + ";pointer-events:none", "<p style='pointer-events:auto;margin:80px 90px;height:30px'>Note</p>"),
    "a panel that is cut": PLAIN + "<div style='position:absolute;left:0;top:0;width:280px;height:400px;overflow:hidden'>" + PANEL % (OVER, "") + "</div>",
    "a part that is raised": BUTTON % ("", "<i style='position:absolute;z-index:2;right:2px;top:2px;width:9px;height:9px'>x</i>") + PANEL % (OVER + ";z-index:1", ""),
    "a label that is raised": "<input type=checkbox id=f aria-label=F style='position:absolute;left:100px;top:100px;width:200px;height:100px'>"
    "<label for=f style='position:absolute;z-index:2;left:280px;top:190px;width:30px;height:30px'>L</label>" + PANEL % (OVER + ";z-index:1", ""),
    "an element with a shape": PANEL % ("inset:0;height:500px", "") + BUTTON % (";clip-path:polygon(0 0,20% 0,0 20%)", "Go"),
    "a small cover beside it": PLAIN + PANEL % ("left:190px;top:140px;width:20px;height:20px", "") + PANEL % ("left:200px;top:90px;width:90px;height:130px", ""),
    "a panel below it": PANEL % (OVER, "") + PLAIN + PANEL % ("left:110px;top:105px;width:180px;height:85px", ""),
}  # fmt: skip


@pytest.mark.parametrize("where", ["the page", "shadow roots"])
@pytest.mark.parametrize("how", FREE)
def test_what_is_free_in_part_is_not_covered(open_page, by_name, how, where):
    page = f"<style>body {{ margin: 0 }}</style>{FREE[how]}"
    if where == "shadow roots":
        page = f"<x-a><template shadowrootmode=open>{page}</template></x-a>"
    _, obs = open_page(page)
    assert by_name(obs, "F")["states"] == ()


def test_what_is_free_in_part_is_found_behind_many_that_are_covered(open_page, by_name):
    many = "".join(f"<button style='width:90px'>{i}</button>" for i in range(60))
    _, obs = open_page(
        many + PLAIN + PANEL % ("inset:0;right:auto;width:284px", "") + PANEL % ("inset:0;left:300px", "")
    )
    assert by_name(obs, "F")["states"] == ()
    assert by_name(obs, "1")["states"] == ("covered", "by div")


COVERED = {
    "a panel": PLAIN + PANEL % (OVER, "<b>Note</b>"),
    "two panels": PLAIN + PANEL % ("left:50px;top:50px;width:160px;height:300px", "") + PANEL % ("left:210px;top:50px;width:200px;height:300px", ""),
    "a panel that is cut": PLAIN + "<div style='position:absolute;left:0;top:0;width:320px;height:400px;overflow:hidden'>" + PANEL % (OVER, "") + "</div>",
    "a round panel": PLAIN + PANEL % (OVER + ";border-radius:40px", ""),
    "a turned panel": PLAIN + PANEL % (OVER + ";transform:rotate(9deg)", ""),
    "a panel in a shadow root": PLAIN + f"<x-p><template shadowrootmode=open>{PANEL % (OVER, '')}</template></x-p>",
    "a panel over a shadow root": f"<x-p><template shadowrootmode=open>{PLAIN}</template></x-p>" + PANEL % (OVER, ""),
    "a frame": PLAIN + f"<iframe style='position:absolute;{OVER}' srcdoc='<p>Note</p>'></iframe>",
    "a backdrop": PLAIN + PANEL % ("inset:0;position:fixed;opacity:.3", "") + PANEL % ("left:150px;top:90px;width:60px;height:60px", ""),
}  # fmt: skip


@pytest.mark.parametrize("how", COVERED)
def test_what_is_covered_everywhere_says_so(open_page, by_name, how):
    _, obs = open_page(f"<style>body {{ margin: 0 }}</style>{COVERED[how]}")
    assert by_name(obs, "F")["states"][0] == "covered"


FORM = "<style>td > button { width: 90px; height: 24px; font-size: 10px } table { border-spacing: 2px }</style><form><table>" + "".join(
    "<tr>" + "".join(f"<td><button type=button><span>{row}.{column}</span></button>" for column in range(7)) for row in range(19)
) + "</table></form>"  # fmt: skip
FIXED = (
    "<div style='position:fixed;z-index:5;background:#fff;border-radius:8px;%s'><div style='padding:8px'>%s</div></div>"
)
PANELS = {
    "a panel": FIXED % ("inset:0", "Note"),
    "strips": "".join(FIXED % (f"left:0;right:0;top:{y}px;height:20px", "") for y in range(4, 600, 29)),
    "two panels": FIXED % ("inset:0;right:auto;width:355px", "") + FIXED % ("inset:0;left:355px", ""),
    "a backdrop": FIXED % ("inset:0;background:#0008", "") + FIXED % ("left:200px;top:100px;width:300px;height:300px", "Note"),
}  # fmt: skip


COUNTED = """globalThis.hitTests = 0;
for (const name of ['elementFromPoint', 'elementsFromPoint']) {
  const ask = DOC[name];
  DOC[name] = (...all) => { hitTests++; return ask(...all); };
}"""


def hit_tests(env):
    """Return the observation, and how often the in-page script asks what lies at a point in one pass."""
    main = env.unwrapped.core.session.active.main
    main.extra, main._script = COUNTED, None
    obs = env.step({"action": "wait", "ms": 10})[0]
    asking = {"expression": "[hitTests, hitTests = 0][0]", "contextId": main._context}
    runtime().run(main.protocol.send("Runtime.evaluate", asking))
    env.step({"action": "wait", "ms": 10})
    return obs, runtime().run(main.protocol.send("Runtime.evaluate", asking))["result"]["value"]


@pytest.mark.parametrize("how", PANELS)
def test_elements_under_panels_cost_a_few_tests_each(open_page, how):
    env, _ = open_page(FORM, over=FORM + PANELS[how])
    obs, free = hit_tests(env)
    assert len(obs["elements"]) == 133
    env.reset(seed=0, options={"start_url": "http://site.test/over.html"})
    obs, over = hit_tests(env)
    assert sum("covered" in element["states"] for element in obs["elements"]) >= 60 * (how != "strips")
    assert over < free + 4 * 133  # grids of points would be 3,100
