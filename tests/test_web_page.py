"""The server's web page in a real browser: Debian's Chromium, without a window."""
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

import tiny_model
from server_process import serving

CHROMIUM = shutil.which("chromium")
KEY = "page-key"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web")
    tiny = tiny_model.make_directory(folder / "tiny")
    (folder / "keys").write_text(KEY)
    with serving(tiny, "--api-key-file", folder / "keys") as server:
        yield server


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, server):
    """The page with its key typed in; what it logs as an error fails the test."""
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(server.url)
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("API key").fill(KEY)
    page.get_by_label("Most tokens").fill("12")
    page.get_by_label("Most tokens").press("Tab")
    yield page
    assert errors == []
    page.close()


def test_without_a_key_it_says_what_is_missing(browser, server):
    page = browser.new_page()
    page.goto(server.url)
    expect(page.locator("#model-name")).to_contain_text("API key")
    page.close()


def test_a_chat_from_the_keyboard(page):
    message = page.get_by_label("Message", exact=False).and_(page.locator("textarea"))
    message.focus()
    page.keyboard.type("Hello")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("there")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Done.", timeout=20000)
    rows = page.get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("Hello\nthere")
    assert rows.nth(1).locator("p").text_content() != ""
    expect(message).to_be_focused()
    page.get_by_role("button", name="New chat").click()
    expect(rows).to_have_count(0)


def test_escape_stops_an_answer(page, server):
    page.get_by_label("Most tokens").fill("200")
    page.get_by_label("Message", exact=False).and_(page.locator("textarea")).fill("x" * 20)
    with server.halted():  # else a fast machine is done before the key
        page.get_by_role("button", name="Send").click()
        page.keyboard.press("Escape")
        expect(page.get_by_role("status")).to_have_text("Stopped.")
    assert server.wait_until_idle(10)


def test_an_error_is_shown(page):
    page.get_by_label("Most tokens").fill("100000")
    page.get_by_label("Message", exact=False).and_(page.locator("textarea")).fill("hi")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status")).to_contain_text("maximum context length is 256")


def test_figures_and_the_models_card(page, server):
    expect(page.locator("#model-name")).to_have_text(server.name)
    expect(page.locator("#running")).to_have_text("0")
    expect(page.locator("#tokens-per-second")).to_have_text("0.0", timeout=10000)
    card = page.locator("#card")
    expect(card).to_contain_text("Architecturellama", ignore_case=True)
    expect(card).to_contain_text("256 tokens")
    page.get_by_text("Layers", exact=True).click()
    expect(page.locator("#layers tr")).to_have_count(15)
    expect(page.locator("#layers tr").nth(1)).to_contain_text("dense")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark(browser, server, scheme):
    """Contrast of text, by WCAG 2's formula: at least 4.5."""
    page = browser.new_page(color_scheme=scheme)
    page.goto(server.url)
    colours = page.evaluate("""() => [["body", "body"], ["label", "#chat"], ["dt", "#live"], ["#send", "#send"]].map(
        ([text, ground]) => [getComputedStyle(document.querySelector(text)).color,
                             getComputedStyle(document.querySelector(ground)).backgroundColor])""")

    def luminance(colour: str) -> float:
        channels = [int(value) / 255 for value in colour[colour.index("(") + 1:-1].split(",")[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for text, ground in colours:
        low, high = sorted([luminance(text), luminance(ground)])
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)
    dark_ground = luminance(colours[0][1]) < 0.5
    assert dark_ground == (scheme == "dark")
    page.close()


def test_every_control_has_a_name(page):
    unnamed = page.evaluate("""() => [...document.querySelectorAll("button, input, textarea, [role=region]")].filter(
        (e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute("aria-label"))).map((e) => e.outerHTML)""")
    assert unnamed == []
