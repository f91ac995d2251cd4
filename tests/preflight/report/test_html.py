"""Pages: self-contained, and safe with any name of a pool."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from gpu_preflight.command_line.console import without_commands
from gpu_preflight.judging.pool_changes import PoolChange
from gpu_preflight.judging.review import Review
from gpu_preflight.report.html import Html, render, tag
from gpu_preflight.report.review_view import ReviewView, review_view
from gpu_preflight.report.view import CheckView, ExplainView, check_view
from tests.preflight.report import samples

View = CheckView | ExplainView | ReviewView
_EMPTY = {"meta", "input", "br", "link"}


class Page(HTMLParser):
    """Elements, ids and addresses of a page; refuses elements that are closed in another order than opened."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: D102 - its name
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:  # noqa: D102 - its name
        assert self.open.pop() == tag


@pytest.fixture(params=["check", "explain", "review"])
def view(request: pytest.FixtureRequest) -> View:
    """A view of each kind."""
    return samples.views()[request.param]


def test_pages_are_well_formed(view: View) -> None:
    assert Page(render(view)).open == []


def test_nothing_is_loaded_and_no_style_or_script_is_inline(view: View) -> None:
    page = Page(render(view))
    names = [name for name, _ in page.attributes]

    assert not {"src", "style", "srcset", "action"} & set(names)
    assert not [name for name in names if name.startswith("on")]
    assert not {"link", "img", "iframe", "object"} & set(page.tags)


def test_policy_allows_only_the_pages_own_script(view: View) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', render(view))

    assert policy is not None
    assert policy.group(1).startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert "unsafe" not in policy.group(1)


def test_every_text_is_escaped(view: View) -> None:
    names = ("train", "Train", "Infer", "demo", "Stack/Train", "app.yaml", "default", "Job default/train")
    hostile = samples.with_text(view, names, samples.HOSTILE)

    page = Page(render(hostile))

    assert page.open == []
    assert page.tags.count("script") == 1
    assert page.tags.count("style") == 1
    assert "&lt;script&gt;alert(1)" in render(hostile)


def test_links_lead_to_the_web_only() -> None:
    page = Page(render(check_view(samples.report([samples.finding(source="javascript:alert(1)")]))))

    assert [value for name, value in page.attributes if name == "href"] == []


def test_a_review_is_headed_by_its_consequence() -> None:
    drained = PoolChange("demo", "Train", "managed", "replaced", drains=True)
    page = render(review_view(Review(pools=(drained,))))

    # It passes, and is not green.
    headline = "GPU review: 1 pool replaced (every node is drained)"
    assert f'<h1 class="outcome unknown">{headline}</h1>' in page
    assert f"<title>{headline} - gpu-constructs</title>" in page
    assert '<h1 class="outcome pass">GPU review: no change for GPUs</h1>' in render(review_view(Review()))


def test_elements_escape_texts_and_attributes() -> None:
    assert tag("p", "<b>", tag("b", "&"), None, title='"') == '<p title="&quot;">&lt;b&gt;<b>&amp;</b></p>'
    assert isinstance(tag("p"), Html)


def test_pools_are_drawn_with_their_nodes_and_gpus() -> None:
    page = render(samples.views()["explain"])

    assert 'aria-label="Train: 2 of 0 to 2 nodes in use, 8 GPUs per node"' in page
    assert page.count('class="node used"') == 2
    assert "and 4 more" in page


def test_blocked_workloads_say_why() -> None:
    page = render(samples.views()["explain"])

    assert re.search(r'class="workload no"><h5><code>Deployment web/chat</code>.*?doesn\S+t tolerate taint', page)
    assert re.search(r'class="workload unknown"><h5><code>Pod default/gated</code>.*?scheduling gate', page)


def test_a_review_lists_what_a_deployment_does_to_each_resource() -> None:
    page = render(review_view(samples.review()))

    assert '<span class="badge replaced">destructive</span>' in page
    assert "CloudFormation rejects LaunchTemplate, Tags together" in page
    assert "Other resources and objects: 1 removed, 1 in place, 1 added." in page
    assert "<code>AWS::FSx::FileSystem Stack/Data</code>" in page
    assert "<code>Deployment web/old</code>" in page
    assert "Service web/old" not in page


def test_styles_and_scripts_have_nothing_that_a_ci_system_reads(view: View) -> None:
    """Escapes on the way to standard output are text: an escape would change a style, whose hash is allowed."""
    assert without_commands(render(view), "html") == render(view)
