"""Names of elements are those that Chromium computes, where a person sees the same."""

import pytest

from selfsurf.browser_env.session.runtime import runtime
from tests.few import few

SAME = [
    "<button>a <q>b</q> c</button>",
    "<button><details><summary>s</summary>hidden <b>too</b></details></button>",
    "<button><span style='display:contents'>a</span><span style='display:contents'>b</span></button>",
    "<label for=i>one</label><label for=i style='display:none'>two</label><input id=i>",
    "<label for=i style='display:none'>only</label><input id=i>",
    "<label>out <label>in <input></label></label>",
    "<button><ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby></button>",
    "<button>a <input placeholder=ph> b</button>",
    "<button>a <input placeholder=ph value=v> b</button>",
    "<button>a<span inert>b</span></button>",
    "<button><img role=presentation alt=x src=x>y</button>",
    "<button><img alt=x src=x>y</button>",
    "<label><input type=checkbox> flash <input type=range value=5 aria-label=n> times</label>",
    "<button>a<span style='visibility:hidden'>b<span style='visibility:visible'>c</span></span></button>",
    "<button style='display:grid'><span>a</span><span>b</span></button>",
    "<table id=t><tr><td>a<td>b<tr><td>c<td>d</table><button aria-labelledby=t>x</button>",
    "<style>.b::before{content:'x'}</style><button><span class=b>y</span></button>",
]


async def by_chromium(session):
    """The names that its accessibility tree has, by role."""
    page = session.active.page
    protocol = await page.context.new_cdp_session(page)
    await protocol.send("Accessibility.enable")
    nodes = (await protocol.send("Accessibility.getFullAXTree"))["nodes"]
    await protocol.detach()
    return [
        (node["role"]["value"], " ".join(node.get("name", {}).get("value", "").split()))
        for node in nodes
        if not node["ignored"]
    ]


@pytest.mark.parametrize("page", few(6, SAME))
def test_a_name_is_chromiums(open_page, page):
    env, obs = open_page(page)
    theirs = runtime().run(by_chromium(env.unwrapped.core.session))
    names = {(one["role"], one["name"]) for one in obs["elements"]}
    assert names
    assert names <= set(theirs)


SEEN = [
    ("<label for=i aria-hidden=true>one</label><input id=i>", "one"),
    ("<button>Cart <output>3</output></button>", "Cart 3"),
    ("<button><span title=Close></span></button>", "Close"),
]
"""What Chromium leaves out although it can be read."""


@pytest.mark.parametrize(("page", "name"), SEEN)
def test_what_is_read_is_a_name_too(open_page, page, name):
    _, obs = open_page(page)
    assert [one["name"] for one in obs["elements"]] == [name]
