"""The page in Chromium: search, lists, reasons, the dial, a new reader, the map, phones, light and dark."""

import re

import httpx
import numpy as np
import pytest

from tests.recommender.models import model_of, small

pytestmark = pytest.mark.browser


def titles(page):
    """The names in the list, from the top."""
    page.wait_for_selector(".entries .entry .name")
    return page.locator(".entries .entry .name").all_inner_texts()


def names_of(results):
    return [result.name for result in results]


def wait_for_names(page, names):
    """Wait until the list has these names."""
    page.wait_for_function(
        "names => JSON.stringify([...document.querySelectorAll('.entries .entry .name')].map(e => e.innerText))"
        " === JSON.stringify(names)",
        arg=names,
    )


def wait_for_list(page, results):
    """Wait until the list is as the model has it."""
    wait_for_names(page, names_of(results))


# --- finding ---


def test_the_first_screen_says_what_there_is_and_where_to_begin(visit, settled, model):
    page = settled(visit())
    assert f"{model.data.n_items} items" in page.inner_text(".lead")
    assert page.locator(".samples").first.locator("li").count() == 6
    page.locator(".samples .name").first.click()
    page.wait_for_selector(".entries .entry")
    assert "#item=" in page.url


def test_search_as_one_types_and_open_with_the_keyboard(visit, model):
    page = visit()
    page.get_by_role("combobox", name="Find an item or a user").press_sequentially("book i4")
    options = page.get_by_role("option")
    options.first.wait_for()
    shown = options.locator(".name").all_inner_texts()
    assert all(re.search(r"book i4", name) for name in shown)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"h1:has-text('{shown[1].split(' — ')[0]}')")
    assert page.get_by_role("option").count() == 0


def test_search_finds_users_and_says_when_there_is_nothing(visit):
    page = visit()
    field = page.get_by_role("combobox", name="Find an item or a user")
    field.fill("u3")
    page.get_by_role("option", name="User u3").click()
    page.wait_for_selector("h1:has-text('User u3')")
    field.fill("zzz")
    page.wait_for_selector("text=Nothing is called “zzz”")


def test_search_forgives_typos(visit):
    page = visit()
    page.get_by_role("combobox", name="Find an item or a user").fill("boko i4")
    page.get_by_role("option").first.wait_for()
    assert "book i4" in page.get_by_role("option").first.inner_text()


def test_figures_are_explained(visit, settled, model):
    page = settled(visit("#user=u2"))
    first = model.recommend("u2", k=1)[0]
    assert page.locator(".score").first.inner_text() == f"{first.score:.2f}"
    for name, explanation in (("score", "How near the item is"), ("popularity", "How many users have the item")):
        term = page.get_by_role("button", name=name, exact=True)
        tip = page.locator(f".explanation:has-text('{explanation}')")
        assert not tip.is_visible()
        term.focus()
        assert tip.is_visible()


@pytest.fixture
def with_table(visit, serve, model, table):
    """Open the page of a server with a table of items; pictures of one host are allowed."""
    address, _ = serve(model, items=table, pictures="cover=pictures.example")

    def open_page(place):
        page = visit(place, at=address, expected=("Content Security Policy", *NETWORK))
        visit.others = ("pictures.example", "elsewhere.example")  # Chromium reports also what the policy refuses
        return page

    return open_page


def test_pictures_come_from_allowed_hosts_alone(with_table, settled, browser):
    page = with_table("#reader=")
    asked = []
    page.route(
        "https://**/*",
        lambda route: (
            asked.append(route.request.url)
            or route.fulfill(
                body='<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', content_type="image/svg+xml"
            )
        ),
    )
    page.reload()
    settled(page)
    assert asked
    assert {url.split("/")[2] for url in asked} == {"pictures.example"}
    assert 0 < page.locator(".entries img").count() < 20, "the others have gone"


def test_colours_have_a_legend_beside_the_map(with_table, settled):
    page = settled(with_table(""))
    assert page.locator("#colour-by").input_value() == "genre"
    assert page.locator("#tints li").all_inner_texts() == ["crime", "poems"]
    canvas, key = page.locator("#map"), page.locator("#map-key")
    assert canvas.bounding_box()["y"] + canvas.bounding_box()["height"] <= key.bounding_box()["y"]
    by_genre = canvas.screenshot()
    page.locator("#colour-by").select_option("year")
    page.wait_for_selector("#tints li:has-text('1950 to 1952')")
    assert page.locator("#tints li").count() == 6
    assert canvas.screenshot() != by_genre


def test_regions_have_the_names_of_what_lies_together(visit):
    regions = """async () => {
        const { nameRegions } = await import("/page/colours.js");
        const places = Float32Array.from({ length: 400 }, (_, at) => (at < 200 ? at % 7 : 90 + (at % 11)) );
        const items = (first, step) => Array.from({ length: 40 }, (_, n) => first + step * n);
        const groups = [["left", items(0, 1)], ["right", items(150, 1)], ["everywhere", items(0, 5)], ["few", [1, 2]]];
        return nameRegions(places, groups);
    }"""
    found = {region["name"]: region["x"] for region in visit().evaluate(regions)}
    assert set(found) == {"left", "right"}
    assert found["left"] < 7
    assert found["right"] >= 90


def test_a_list_is_filtered_and_made_more_varied(with_table, settled, model):
    page = settled(with_table("#user=u2"))
    page.get_by_label("Only").select_option("genre")
    page.get_by_label("Value of the column").fill("poems")
    poems = [item for n, item in enumerate(model.data.item_ids) if int(item[1:]) % 3 == 0]
    wait_for_list(page, model.recommend("u2", k=20, only=poems))
    page.get_by_label("more varied").check()
    wait_for_list(page, model.recommend("u2", k=20, only=poems, diversity=0.5))


def test_the_tip_stays_at_its_item(visit, settled, address):
    page = settled(visit())
    canvas = page.locator("#map")
    x, y = places_on_screen(page, address)[0]
    page.mouse.move(x + 3, y)
    tip = page.locator("#tip:not([hidden])")
    tip.wait_for()
    before = tip.bounding_box()
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(400)
    after = tip.bounding_box()
    assert before != after
    assert canvas.is_visible()


def test_an_item_and_its_neighbours(visit, settled, model):
    page = settled(visit("#item=i3"))
    assert page.inner_text("h1") == "The book i3 — Zoë Author0"
    assert titles(page) == names_of(model.similar_items("i3", k=12))


def test_names_are_text_not_markup(visit, settled):
    page = settled(visit("#item=i7"))
    assert page.inner_text("h1") == "<img src=x onerror=alert(1)> & co"
    assert page.locator("#view img").count() == 0


# --- lists ---


def test_a_users_history_list_and_reasons(visit, settled, model):
    page = settled(visit("#user=u2"))
    results = model.recommend("u2", k=20)
    assert titles(page) == names_of(results)
    own = {model.data.item_names[item] for item in model.data.items_of(2)}
    assert set(page.locator(".history .plain a").all_inner_texts()) == own
    for entry, result in zip(page.locator(".entries .entry").all()[:5], results, strict=False):
        reasons = [reason.name.split(" — ")[0] for reason in model.explain("u2", result.item, k=2)]
        assert entry.locator(".because").inner_text() == f"because you have {', '.join(reasons)}"


def test_the_slider_changes_the_list_while_it_moves(visit, settled, model):
    page = settled(visit("#user=u2"))
    slider = page.get_by_role("slider", name="How mainstream")
    assert slider.get_attribute("aria-valuetext") == "0.40, the model’s default"
    before = titles(page)
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    wait_for_list(page, model.recommend("u2", k=20, mainstream=-0.2))
    assert titles(page) != before
    assert page.url.endswith("#user=u2&dial=-0.2")
    page.get_by_role("button", name="back to 0.4").click()
    wait_for_list(page, model.recommend("u2", k=20))
    assert page.url.endswith("#user=u2")


def test_requests_of_the_slider_are_coalesced(visit, settled, model):
    page = settled(visit("#user=u2"))
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/recommend") else None)
    page.evaluate(
        """() => {
            const slider = document.getElementById("dial");
            for (let step = 0; step < 30; step += 1) {
                slider.value = 1.2 - step / 20;
                slider.dispatchEvent(new Event("input"));
            }
        }"""
    )
    wait_for_list(page, model.recommend("u2", k=20, mainstream=-0.25))
    assert len(asked) <= 3


def test_the_address_has_the_dial(visit, model):
    page = visit("#user=u2&dial=1.1")
    wait_for_list(page, model.recommend("u2", k=20, mainstream=1.1))
    assert page.get_by_role("slider").get_attribute("aria-valuetext") == "1.10"


def test_a_model_without_reach_has_no_dial(visit, serve):
    plain = model_of(small())
    page = visit("#user=u2", at=serve(plain)[0])
    page.wait_for_selector("text=This model was trained without reach")
    assert page.get_by_role("slider").count() == 0
    wait_for_titles = [str(result.item) for result in plain.recommend("u2", k=20)]
    assert titles(page) == wait_for_titles  # it has no names either


def test_build_a_reader_and_the_list_follows(visit, model):
    page = visit()
    page.get_by_role("combobox", name="Something that you like").fill("book i11")
    page.get_by_role("option").first.click()
    wait_for_list(page, model.recommend_for(["i11"], k=20))
    field = page.get_by_role("combobox", name="Add something that you like")
    field.press_sequentially("book i12")
    page.get_by_role("option", name="The book i12").wait_for()
    page.keyboard.press("Enter")
    wait_for_list(page, model.recommend_for(["i11", "i12"], k=20))
    assert page.url.endswith("#reader=i11,i12")
    page.get_by_role("button", name="Remove The book i11").click()
    wait_for_list(page, model.recommend_for(["i12"], k=20))
    assert page.locator(".because").first.inner_text() == "because you have The book i12"
    page.get_by_role("button", name="Remove The book i12").click()
    page.wait_for_selector("text=What most have. Add something that you like, and the list is yours.")
    popular = model.recommend_for([], k=20)
    wait_for_list(page, popular)


def test_an_item_is_added_to_the_reader(visit, model):
    page = visit("#reader=i1,i2,unknown")
    wait_for_list(page, model.recommend_for(["i1", "i2"], k=20))
    assert "1 item of the address" in page.inner_text("#view")
    page.goto(page.url.split("#")[0] + "#item=i3")
    page.get_by_role("button", name="Add to your reader of 2").click()
    wait_for_list(page, model.recommend_for(["i1", "i2", "i3"], k=20))


ODD = ["a,b", "a/b", "a&b=c", "50%", "é #1", "<b>", "x y", '"q"']


def test_ids_with_odd_characters(visit, serve):
    odd = model_of(small(users=ODD, items=ODD, density=0.4), mainstream=0.4)
    address, _ = serve(odd)
    page = visit(at=address)
    for item in ODD:
        page.evaluate("id => { location.hash = `#item=${encodeURIComponent(id)}`; }", item)
        page.wait_for_function("id => document.querySelector('h1')?.innerText === id", arg=item)
        page.evaluate("id => { location.hash = `#user=${encodeURIComponent(id)}`; }", item)
        page.wait_for_function("id => document.querySelector('h1')?.innerText === `User ${id}`", arg=item)
    own = ["a,b", "50%", "a&b=c"]
    page.evaluate("ids => { location.hash = `#reader=${ids.map(encodeURIComponent).join(',')}`; }", own)
    page.wait_for_function("n => document.querySelectorAll('.history .plain li').length === n", arg=3)
    page.get_by_role("slider").press("ArrowLeft")
    results = [str(result.item) for result in odd.recommend_for(own, k=20, mainstream=0.35)]
    wait_for_names(page, results)
    page.reload()
    page.wait_for_function("n => document.querySelectorAll('.history .plain li').length === n", arg=3)


def test_long_ids_stay_in_their_place(visit, settled, serve):
    long = ["x" * 400, *(f"i{n}" for n in range(20))]
    page = settled(visit(f"#item={long[0]}", at=serve(model_of(small(items=long)))[0], size=(375, 700)))
    assert page.evaluate("document.getElementById('panel').scrollWidth") <= 375
    assert long[0] not in page.inner_text(".detail"), "an id without a name is said once"
    page.goto(page.url.split("#")[0] + "#item=i1")
    page.wait_for_selector("h1:has-text('i1')")
    assert max(one.bounding_box()["height"] for one in page.locator(".entry").all()) < 160


def test_ids_that_are_numbers(visit, serve):
    numbers = model_of(small(users=list(range(12)), items=list(range(100, 130))), mainstream=0.4)
    page = visit("#reader=101,102", at=serve(numbers)[0])
    results = [str(result.item) for result in numbers.recommend_for([101, 102], k=20)]
    page.wait_for_selector(".entries .entry")
    assert titles(page) == results
    page.locator(".entries .name").first.click()
    page.get_by_role("button", name="Add to your reader of 2").click()
    page.wait_for_selector(".history .plain li:nth-child(3)")


# --- the map ---


def places_on_screen(page, address):
    """Where the items are, in pixels of the window, when the whole map is shown; and how many there are."""
    numbers = np.frombuffer(httpx.get(f"{address}/map").content, dtype="<f4")
    places = numbers[: len(numbers) * 2 // 3].reshape(-1, 2)
    ordered, last = np.sort(places, axis=0), len(places) - 1
    low, high = ordered[round(0.01 * last)], ordered[round(0.99 * last)]
    box = page.locator("#map").bounding_box()
    size = np.array([box["width"], box["height"]])
    scale = (size * 0.92 / (high - low)).min()
    return (places - (low + high) / 2) * scale + size / 2 + [box["x"], box["y"]]


def test_a_click_on_the_map_shows_the_item_and_its_neighbours(visit, settled, model, address):
    page = settled(visit())
    places = places_on_screen(page, address)
    away = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(away, np.inf)
    box = page.locator("#map").bounding_box()
    inside = (places > [box["x"] + 40, box["y"] + 40]).all(1)
    inside &= (places < [box["x"] + box["width"] - 80, box["y"] + box["height"] - 140]).all(1)
    item = int(np.where(inside, away.min(1), 0).argmax())  # alone, so that no other is meant
    assert away.min(1)[item] > 15
    page.mouse.click(*places[item])
    page.wait_for_url(f"**#item={model.data.item_ids[item]}")
    wait_for_list(page, model.similar_items(model.data.item_ids[item], k=12))


def test_the_map_by_keyboard(visit, settled):
    page = settled(visit("#item=i3"))
    canvas = page.locator("#map")
    canvas.focus()
    before = canvas.screenshot()
    for key in ("+", "+", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    assert canvas.screenshot() != before
    page.keyboard.press("0")
    page.wait_for_timeout(900)
    for _ in range(40):
        page.keyboard.press("Enter")
        page.wait_for_timeout(60)
        if "#item=i3" not in page.url:
            break
        page.keyboard.press("ArrowRight")
    assert re.search(r"#item=i(?!3$)\d+$", page.url)


def test_the_map_is_dragged_and_zoomed(visit, settled, address):
    page = settled(visit())
    canvas = page.locator("#map")
    box = canvas.bounding_box()
    middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    places = places_on_screen(page, address)
    x, y = places[np.linalg.norm(places - middle, axis=1).argmin()]
    pictures = [canvas.screenshot()]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 90, y + 40, steps=4)
    page.mouse.up()  # on the same item: the map has come along
    page.wait_for_timeout(400)
    pictures.append(canvas.screenshot())
    assert page.url.endswith("/")  # a drag is no click
    page.mouse.wheel(0, -400)
    page.wait_for_timeout(400)
    pictures.append(canvas.screenshot())
    assert len(set(pictures)) == 3


def test_a_slow_map_moves_with_fewer_pixels_and_rests_sharply(visit, settled):
    page = settled(visit(device_scale_factor=2))
    page.wait_for_selector("#map[data-ratio='2']")
    slow = """() => {
        const [now, begin] = [performance.now.bind(performance), performance.now()];
        performance.now = () => begin + 20 * (now() - begin);  // as if each frame took long
        document.getElementById("theme").click();
    }"""
    page.evaluate(slow)
    page.wait_for_timeout(100)
    page.locator("#map").focus()
    page.keyboard.press("+")
    for ratio in (1, 2):
        page.wait_for_selector(f"#map[data-ratio='{ratio}']")


def test_names_are_asked_for_a_few_at_a_time(visit, settled):
    asked = []
    page = visit()
    page.on("request", lambda request: asked.append(request.url) if "/map/items?" in request.url else None)
    settled(page)
    assert all(url.count("index=") <= 150 for url in asked)


# --- phones, light and dark, motion ---


@pytest.mark.parametrize("place", ["", "#item=i3", "#user=u2", "#reader=i1,i2"])
def test_phones(visit, settled, place):
    page = settled(visit(place, size=(375, 700), has_touch=True, is_mobile=True, device_scale_factor=2))
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert page.locator("#panel").is_visible()
    assert not page.locator("#map").is_visible()
    page.get_by_role("button", name="Map", exact=True).tap()
    page.wait_for_timeout(800)
    assert page.locator("#map").is_visible()
    assert page.locator("#map").bounding_box()["width"] == 375
    assert page.evaluate("Number(document.getElementById('map').dataset.milliseconds)") < 1000
    if place:
        page.locator("#subject").tap()
        assert page.locator("#panel").is_visible()


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark_by_the_system_and_by_the_button(visit):
    light, dark = (background(visit(color_scheme=scheme)) for scheme in ("light", "dark"))
    assert light != dark
    page = visit(color_scheme="light")
    page.get_by_role("button", name="Switch between light and dark").click()
    assert background(page) == dark
    page.reload()
    assert background(page) == dark


@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
def test_entries_move_only_where_motion_is_welcome(visit, settled, model, motion, moves):
    page = settled(visit("#user=u2", reduced_motion=motion))
    page.evaluate(
        """() => {
            window.moved = 0;
            const animate = Element.prototype.animate;
            Element.prototype.animate = function (...given) { window.moved += 1; return animate.apply(this, given); };
        }"""
    )
    page.get_by_role("slider").press("Home")
    wait_for_list(page, model.recommend("u2", k=20, mainstream=-0.5))
    assert (page.evaluate("window.moved") > 0) is moves


# --- what goes wrong ---

NETWORK = ("Failed to load resource", "net::ERR")


def test_unknown_ids_have_a_page_of_their_own(visit):
    page = visit("#item=nope", expected=NETWORK)
    page.wait_for_selector("text=This model does not know it")
    page.get_by_role("link", name="Back to the beginning").click()
    page.wait_for_selector(".samples")


def test_a_server_that_cannot_be_reached(visit, settled, model):
    page = settled(visit(expected=NETWORK))
    page.route("**/similar/**", lambda route: route.abort())
    page.goto(page.url + "#item=i3")
    page.wait_for_selector("text=The server cannot be reached")
    page.unroute("**/similar/**")
    page.get_by_role("button", name="Try again").click()
    wait_for_list(page, model.similar_items("i3", k=12))
    assert not page.locator("#notice").is_visible()


def test_an_answer_that_is_no_json_is_said_in_words(visit):
    page = visit("#item=..", expected=NETWORK)
    page.wait_for_selector("text=This is no answer of the server")


def test_a_busy_server_is_asked_again(visit, model):
    page = visit(expected=NETWORK)
    tries = []

    def refuse_once(route):
        tries.append(1)
        if len(tries) == 1:
            route.fulfill(status=503, headers={"retry-after": "0"}, json={"error": "the queue is full"})
        else:
            route.continue_()

    page.route("**/recommend", refuse_once)
    page.goto(page.url + "#user=u2")
    wait_for_list(page, model.recommend("u2", k=20))
    assert len(tries) == 2


def test_a_server_with_a_key(visit, serve, model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef\n")
    address, _ = serve(model, api_key_file=keys)
    page = visit("#user=u2", at=address, expected=NETWORK)
    page.get_by_label("Key", exact=True).fill("wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=That key was not accepted")
    page.get_by_label("Key", exact=True).fill("0123456789abcdef")
    page.keyboard.press("Enter")
    wait_for_list(page, model.recommend("u2", k=20))
    page.reload()
    wait_for_list(page, model.recommend("u2", k=20))


def test_another_model_takes_over(visit, serve, settled, model):
    address, file = serve(model)
    page = settled(visit("#user=u2", at=address))
    other = model_of(small(items=list(model.data.item_ids), density=0.2), seed=9, mainstream=0.4)
    other.save(file)
    for _ in range(100):
        if httpx.get(f"{address}/model").json()["model"] not in page.inner_text("#about"):
            break
        page.wait_for_timeout(50)
    page.get_by_role("slider").press("ArrowLeft")
    checksum = httpx.get(f"{address}/model").json()["model"]
    page.wait_for_selector(f"#about:has-text('{checksum}')")


# --- accessibility ---


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["", "#item=i3", "#user=u2", "#reader=i1,i2", "#reader="])
def test_no_serious_finding_of_axe(visit, settled, place, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[browser]'")
    page = settled(visit(place, color_scheme=scheme, bypass_csp=True))
    found = axe.Axe().run(page).response["violations"]
    serious = [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]
    assert not serious


def test_everything_is_reached_by_tab(visit, settled):
    page = settled(visit("#user=u2"))
    page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(120):
        page.keyboard.press("Tab")
        tag = "document.activeElement"
        reached.append(
            page.evaluate(f"{tag}.id || {tag}.getAttribute('aria-label') || {tag}.className || {tag}.tagName")
        )
    for wanted in ("Find an item or a user", "theme", "dial", "name", "map", "zoom-in"):
        assert wanted in reached
