"""site.py TREE SITE - each page of the site has the lists, code blocks and tables that its file has as CommonMark.

Found by it alone: nested lists and blocks in lists, of which Python-Markdown wants another indentation.
"""

import collections
import os
import sys
from html.parser import HTMLParser

from markdown_it import MarkdownIt

tree, site = sys.argv[1:]
KINDS = {"h1", "h2", "h3", "h4", "ul", "ol", "li", "pre", "code", "table", "tr", "img", "strong"}


class Counter(HTMLParser):
    """Counts what is in the article of a page of the site, or in all of a text."""

    def __init__(self, text, article):
        super().__init__()
        self.depth = 0 if article else 1
        self.counts = collections.Counter()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if dict(attributes).get("itemprop") == "articleBody":
            self.depth = 1
        elif tag == "div" and self.depth:
            self.depth += 1
        elif tag in KINDS and self.depth:
            self.counts[tag] += 1

    def handle_endtag(self, tag):
        if tag == "div" and self.depth:
            self.depth -= 1


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


pages = {"overview/": "README.md", "CHANGELOG/": "CHANGELOG.md", "SECURITY/": "SECURITY.md", "CONTRIBUTING/": "CONTRIBUTING.md"}
for folder, _, names in os.walk(os.path.join(tree, "docs")):
    for name in names:
        page, kind = os.path.splitext(os.path.relpath(os.path.join(folder, name), tree))
        if kind == ".md":
            pages[page.removeprefix("docs/").removesuffix("README") + "/"] = page + kind
commonmark = MarkdownIt("commonmark").enable("table")
failed = False
for address, page in sorted(pages.items()):
    expected = Counter(commonmark.render(read(tree, page)), False).counts
    found = Counter(read(site, address.lstrip("/"), "index.html"), True).counts
    for kind in sorted(KINDS):
        if expected[kind] != found[kind]:
            print(f"{page}: {found[kind]} {kind} in the site, {expected[kind]} in the page")
            failed = True
sys.exit(failed)
