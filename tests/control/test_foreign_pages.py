"""Pages of other origins: a browser may only follow their links to pages of the control server."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from kafka_shim.testing import CoordinatorServer
from tests.browser import Browser

LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    "path",
    ["/", "/page/page.js", "/docs", "/semantics", "/semantics/2", "/openapi.json", "/health", "/v1/groups", "/nothing"],
)
def test_every_answer_forbids_frames_and_guesses_of_its_type(server: CoordinatorServer, path: str) -> None:
    headers = httpx.get(server.control_url + path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/docs", "/semantics", "/semantics/2"])
def test_every_page_has_a_policy_without_foreign_or_inline_scripts(server: CoordinatorServer, path: str) -> None:
    policy = httpx.get(server.control_url + path).headers["content-security-policy"]
    assert policy.startswith(("default-src 'self'", "default-src 'none'"))
    assert "unsafe" not in policy


@pytest.mark.parametrize("site", ["cross-site", "same-site", "of-tomorrow"])
@pytest.mark.parametrize("path", ["/v1/events?frames=true&seconds=0", "/v1/groups", "/metrics", "/page/page.js", "/"])
def test_loads_of_foreign_pages_are_refused(server: CoordinatorServer, site: str, path: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert httpx.get(server.control_url + path, headers=headers).status_code == 403


def test_a_link_of_a_foreign_page_leads_to_pages_alone(server: CoordinatorServer) -> None:
    def status(path: str, **more: str) -> int:
        return httpx.get(server.control_url + path, headers=LINK | {"Sec-Fetch-Site": "cross-site"} | more).status_code

    assert [status(path) for path in ("/", "/docs", "/semantics", "/semantics/2", "/openapi.json")] == [200] * 5
    assert status("/v1/events?frames=true&seconds=0") == 403
    assert status("/", **{"Sec-Fetch-Dest": "iframe"}) == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_own_pages_and_typed_addresses_are_served(server: CoordinatorServer, site: str) -> None:
    assert httpx.get(server.control_url + "/v1/groups", headers={"Sec-Fetch-Site": site}).status_code == 200


@pytest.fixture
def foreign(server: CoordinatorServer) -> Iterator[str]:
    """A page of another origin that frames the page, loads an endless stream as an image, and has a link."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            url = server.control_url
            self.wfile.write(
                f'<!doctype html><a href="{url}/">link</a><iframe src="{url}/"></iframe>'
                f'<img src="{url}/v1/events?frames=true">'.encode()
            )

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}/"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.mark.second_stage("a browser")
def test_a_browser_frames_nothing_and_follows_the_link(server: CoordinatorServer, foreign: str) -> None:
    with Browser() as browser:
        browser.open(foreign)
        # In place of a refused frame the browser shows its own page, which no script can read.
        frames = browser.call("Page.getFrameTree")["frameTree"].get("childFrames", [])
        assert [each["frame"]["url"] for each in frames] == ["chrome-error://chromewebdata/"]
        assert browser.evaluate("document.querySelector('img').naturalWidth") == 0
        # A stream of frames that is open has the nodes keep frames.
        assert [node.frames for node in server.kit.cluster.nodes.values()] == [None]
        browser.follow("a")
        browser.wait(f"location.href === '{server.control_url}/' && document.readyState === 'complete'")


@pytest.mark.second_stage("a browser")
@pytest.mark.parametrize("path", ["/", "/docs", "/semantics", "/semantics/2"])
def test_a_browser_shows_every_page_without_a_complaint(server: CoordinatorServer, path: str) -> None:
    with Browser() as browser:
        browser.open(server.control_url + path)
        browser.evaluate("document.fonts.ready.then(() => 0)")
        assert browser.evaluate("getComputedStyle(document.body).fontFamily") != "Times New Roman"
        assert browser.errors == []
