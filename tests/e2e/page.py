#!/usr/bin/env python3
"""page.py - takes a page of gpushim html apart, as a browser's parser does, for the end-to-end tests.

  page.py PAGE JSON FOLDER   the value of the element's text must be that of the file JSON (-: of
                             none); FOLDER gets that text, the timeline, the script and the elements' ids, for page.js
"""
import html.parser
import json
import pathlib
import sys


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.scripts, self.policy = [], [], None
        self.comments, self.in_script = 0, False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.in_script = tag == "script"
        if self.in_script:
            self.scripts.append((attributes, []))
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert name not in attributes, "the page loads %s" % attributes[name]
        for name in attributes:
            assert not name.startswith("on"), "a script in an attribute"

    def handle_endtag(self, tag):
        self.in_script = False

    def handle_data(self, data):
        if self.in_script:
            self.scripts[-1][1].append(data)

    def handle_comment(self, data):
        self.comments += 1


page_path, json_path, folder = sys.argv[1:]
text = pathlib.Path(page_path).read_bytes().decode("utf-8", "strict")
page = Page()
page.feed(text)
page.close()
assert page.comments == 0, "a comment"
assert len(page.scripts) == 3, "%d scripts" % len(page.scripts)
(of_report, report), (of_timeline, timeline), (of_view, view) = (
    (attributes, "".join(data)) for attributes, data in page.scripts)
assert of_report == {"type": "application/json", "id": "report"}, of_report
assert of_timeline == {"type": "application/json", "id": "timeline-data"}, of_timeline
json.loads(timeline)
assert of_view == {}, of_view
assert set(report).isdisjoint("<>&\u2028\u2029"), "a character of HTML's in the JSON"
if json_path != "-":
    wanted = pathlib.Path(json_path).read_bytes().decode("utf-8", "replace")
    assert json.loads(report) == json.loads(wanted), "another report"
assert page.policy.startswith("default-src 'none';"), page.policy
assert "http:" not in view and "https:" not in view and "innerHTML" not in view
out = pathlib.Path(folder)
out.mkdir(exist_ok=True)
(out / "report.json").write_text(report, encoding="utf-8")
(out / "timeline.json").write_text(timeline, encoding="utf-8")
(out / "view.js").write_text(view, encoding="utf-8")
(out / "ids").write_text("\n".join(page.ids), encoding="utf-8")
