def lines(obs):
    return [line.strip() for line in obs["dom"].split("\n")]


def test_an_icon_among_text_is_told_by_its_class(open_page):
    _, obs = open_page(
        """<style>.ui-icon, i{display:inline-block;width:16px;height:16px}</style>
        <p>Click the item with the <span class="ui-icon ui-icon-disk"></span> icon.</p>
        <p>Rated <i class="fa fa-star"></i><i class="fa fa-star"></i></p>
        <p>Plain <i class="iconic"></i><i class="fa-2x"></i><i class="icon-gone" style="display:none"></i></p>
        <button><i class="icon-trash"></i>Delete</button>"""
    )
    assert lines(obs) == [
        'Click the item with the icon "disk" icon.',
        'Rated icon "star" icon "star"',
        "Plain",
        '[1] button "Delete"',
    ]
    assert "star" not in obs["page_text"]


def test_small_painted_boxes_among_text_are_told_with_their_colour(open_page):
    swatch = '<span style="display:inline-block;width:10px;height:10px;background:{}"></span>'
    _, obs = open_page(
        f"""<p>{swatch.format("red")} Sales {swatch.format("#123456")} {swatch.format("#123456")} Costs</p>
        <p>{swatch.format("transparent")} nothing</p>
        <div style="width:300px;height:10px;background:red"></div><b style="position:absolute;top:0;width:9px;height:9px;background:red"></b>"""
    )
    assert lines(obs) == ["(red box) Sales (2 #123456 boxes) Costs", "nothing"]


def test_an_empty_box_that_can_be_clicked_tells_its_colour(open_page):
    _, obs = open_page(
        """<style>div{width:20px;height:20px}</style><div style="background:olive" onclick="0"></div>
        <div style="background:#3db33d" onclick="0"></div><div onclick="0"></div><div style="background:red" onclick="0">Stop</div>"""
    )
    assert [element["states"] for element in obs["elements"]] == [("olive",), ("#3db33d",), (), ()]


def test_what_is_marked_as_selected_by_its_class_is_selected(open_page, by_name):
    _, obs = open_page("<button class='big selected'>Odd</button><button class=unselected>Even</button>")
    assert by_name(obs, "Odd")["states"] == ("selected",)
    assert by_name(obs, "Even")["states"] == ()
