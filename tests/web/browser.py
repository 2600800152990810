"""Looks at every page of a dashboard in a real browser, and does what an operator does.

Fails with a sentence for each thing that is wrong.
"""

import argparse
import math
import shutil
import sys
import time
from pathlib import Path

import redis
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

PAGES = [
    "/",
    "/?span=week",
    "/queues",
    "/queue?queue=q",
    "/calls",
    "/calls?state=waiting",
    "/calls?state=dead",
    "/call?id=order%3A1",
    "/enqueue?queue=q&id=order%3A1",
    "/workers",
    "/tasks",
    "/task?task=trial.pair",
    "/periodic",
    "/periodic/task?queue=q&name=nightly",
    "/limits",
    "/flows",
    "/dead",
    "/doctor",
    "/audit",
]
SIZES = {"phone": (360, 740), "desktop": (1280, 800), "large": (3840, 2160)}
# In which sizes and themes accessibility is checked.
CHECKED = {("phone", "light"), ("desktop", "dark"), ("desktop", "light")}
STANDARDS = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
}
SHIFTS = """
() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) sum += entry.value; })
    .observe({ type: 'layout-shift', buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
})
"""
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"

problems: list[str] = []


def watch(page: Page, where: str) -> None:
    """Notes what the browser complains of, such as a violation of the content security policy."""

    def note(message: str) -> None:
        problems.append(f"{where}: {message}")

    page.on(
        "console",
        lambda message: note(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: note(str(error)))
    page.on("dialog", lambda dialog: (note("a dialog: something was executed"), dialog.dismiss()))


def look(browser: Browser, dashboard: str) -> None:
    """Looks at every page in every size and theme."""
    axe = Axe()
    for size, (width, height) in SIZES.items():
        for theme in ("light", "dark"):
            # The checks of accessibility are a script, which the pages would not allow.
            is_checked = (size, theme) in CHECKED
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=theme,
                bypass_csp=is_checked,
            )
            page = context.new_page()
            for path in PAGES:
                where = f"{path} ({size}, {theme})"
                watch(page, where)
                answer = page.goto(dashboard + path)
                if answer is None or not answer.ok:
                    problems.append(f"{where}: status {answer and answer.status}")
                if page.evaluate(OVERFLOW) > 0:
                    problems.append(f"{where}: the page is wider than the screen")
                if (shift := page.evaluate(SHIFTS)) > 0:
                    problems.append(f"{where}: the layout shifts by {shift}")
                if is_checked:
                    for found in axe.run(page, options=STANDARDS)["violations"]:
                        nodes = [node["html"][:150] for node in found["nodes"][:3]]
                        problems.append(f"{where}: {found['id']}: {found['help']}: {nodes}")
            context.close()


def use_keyboard(page: Page, dashboard: str) -> None:
    """Uses the keys."""
    page.goto(dashboard + "/")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    if before == after:
        problems.append("the key t does not change the theme")
    page.reload()
    if page.evaluate("getComputedStyle(document.body).backgroundColor") != after:
        problems.append("the theme is forgotten")
    page.keyboard.press("t")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()


def act(page: Page, dashboard: str, server: "redis.Redis") -> None:
    """Does what an operator does, and looks into Redis for it."""
    notice = page.locator(".notice")
    page.goto(dashboard + "/queues")
    page.get_by_role("button", name="Pause").click()
    expect(notice).to_have_text("Paused q")
    assert server.exists("q_paused")
    # From another process: the open page shows it by itself.
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("60")
    server.rpush("q", b"\xc1")
    server.rpush("q_noti", b"1")
    expect(row).to_contain_text("61", timeout=30_000)
    page.get_by_role("button", name="Resume").click()
    expect(notice).to_have_text("Resumed q")

    page.goto(dashboard + "/dead")
    group = page.get_by_role("region", name="Dead letters by task and error").get_by_role("row")
    group.filter(has_text="trial.panic").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Are you sure?")).to_be_visible()
    page.get_by_role("link", name="No").click()
    expect(page.get_by_role("heading", name="Dead letters", level=1)).to_be_visible()
    assert server.xlen("q_dead") == 5
    group.filter(has_text="trial.panic").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes").click()
    expect(notice).to_have_text("Deleted 1 dead letter")
    assert server.xlen("q_dead") == 4

    page.goto(dashboard + "/call?id=order%3A2")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Yes").click()
    expect(notice).to_contain_text("was scheduled, and has been removed")
    assert server.zcard("q_due") == 2, "a call and a periodic task"

    page.goto(dashboard + "/task?task=trial.pair")
    page.get_by_label("number").fill("7")
    page.get_by_label("text").fill("two words")
    page.get_by_label("Queue").fill("other")
    page.get_by_role("button", name="Enqueue").click()
    expect(page.get_by_role("heading", name="trial.pair")).to_be_visible()
    assert server.llen("other") == 1

    page.goto(dashboard + "/call?id=order%3A1")
    page.get_by_role("link", name="Edit and enqueue again").click()
    field = page.get_by_label("Description")
    field.fill(field.input_value().replace("7", "8").replace('"q"', '"other"'))
    page.get_by_role("button", name="Enqueue").click()
    expect(notice).to_contain_text("into other")
    assert server.llen("other") == 2

    page.goto(dashboard + "/queue?queue=q")
    page.get_by_role("button", name="Drop all waiting calls").click()
    page.get_by_role("button", name="Yes").click()
    expect(notice).to_have_text("Dropped 61 waiting calls of q")
    assert server.llen("q") == 0


def take_screenshots(
    browser: Browser, dashboard: str, server: "redis.Redis", directory: Path
) -> None:
    """Makes the pictures of the documents."""
    # An hour of sample counts, which would take an hour to come about.
    minute = int(time.time()) // 60
    for n in range(60):
        succeeded = int(900 + 500 * math.sin(n / 9) + 90 * math.sin(n * 2.1))
        server.hset("delayed_history:q", f"1:{minute - n}:s", succeeded)
        server.hset(
            "delayed_history:q", f"1:{minute - n}:f", succeeded // (4 if 20 < n < 26 else 40)
        )
    for theme in ("light", "dark"):
        context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=theme)
        page = context.new_page()
        for name, path in (("overview", "/"), ("dead", "/dead")):
            page.goto(dashboard + path)
            page.screenshot(path=directory / f"{name}-{theme}.png")
        context.close()


def main() -> None:
    """Does all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dashboard", required=True)
    parser.add_argument("--redis", required=True, help="its socket")
    parser.add_argument("--screenshots", type=Path)
    given = parser.parse_args()
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        sys.exit("expected chromium: `scripts/install --tools` installs it")
    server = redis.Redis(unix_socket_path=given.redis)
    with sync_playwright() as playwright:
        # The sandbox needs rights that containers do not have.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if given.screenshots:
            take_screenshots(browser, given.dashboard, server, given.screenshots)
        look(browser, given.dashboard)
        if problems:
            sys.exit("\n".join(dict.fromkeys(problems)))
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        watch(page, "acting")
        use_keyboard(page, given.dashboard)
        act(page, given.dashboard, server)
        browser.close()
    if problems:
        sys.exit("\n".join(dict.fromkeys(problems)))


if __name__ == "__main__":
    main()
