#!/usr/bin/env python3
"""page.py - takes a page of gpushim html apart, as a browser's parser does, for the end-to-end tests.

  page.py PAGE JSON FOLDER   the value of the element's text must be that of the file JSON (-: of
                             none); FOLDER gets that text, the timeline, its curves, the script and the elements' ids, for page.js
"""
import base64
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


def unpack(text):
    """The numbers of a packed list: seven bits a byte, the lowest first, in base64."""
    numbers, value, shift = [], 0, 0
    for byte in base64.b64decode(text, validate=True):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value, shift = 0, 0
    assert shift == 0, "a number is cut off"
    return numbers


def curves(timeline):
    """Live bytes at each moment: of each memory, and there by site and by owner."""
    found = []
    for memory in (timeline or {"memories": []})["memories"]:
        moments = timeline["moments"] + 1
        spans, site, first = unpack(memory["spans"]), 0, 0
        layers = {"live": {}, "sites": {}, "owners": {}}
        assert len(spans) % 5 == 0 and len(unpack(memory["times"])) == moments - 1
        for step, begin, length, count, size in zip(*(spans[i::5] for i in range(5))):
            site, first = site + step, begin if step else first + begin
            assert 0 < length and first + length <= moments and 0 < count
            for name, key in (("live", 0), ("sites", site), ("owners", timeline["sites"][site].get("owner"))):
                curve = layers[name].setdefault(key, [0] * moments)
                for at in range(first, first + length):
                    curve[at] += size
        found.append({"device": memory["device"], "live": layers["live"].get(0, [0] * moments),
                      "sites": [dict(timeline["sites"][site], live=live) for site, live in layers["sites"].items()],
                      "owners": [{"name": name, "live": live} for name, live in layers["owners"].items()]})
    return found


page_path, json_path, folder = sys.argv[1:]
text = pathlib.Path(page_path).read_bytes().decode("utf-8", "strict")
page = Page()
page.feed(text)
page.close()
assert page.comments == 0, "a comment"
assert len(page.scripts) % 2 == 1, "%d scripts" % len(page.scripts)
(of_report, report), (of_timeline, timeline), *others, (of_view, view) = (
    (attributes, "".join(data)) for attributes, data in page.scripts)
for i, (of_other, other) in enumerate(others):
    name = "timeline-data-%d" if i % 2 else "report-%d"
    assert of_other == {"type": "application/json", "id": name % (i // 2 + 1)}, of_other
    json.loads(other)
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
(out / "curves.json").write_text(json.dumps(curves(json.loads(timeline))), encoding="utf-8")
for i, (of_other, other) in enumerate(others):
    (out / (of_other["id"] + ".json")).write_text(other, encoding="utf-8")
(out / "view.js").write_text(view, encoding="utf-8")
(out / "ids").write_text("\n".join(page.ids), encoding="utf-8")
