"""site_pages.py - hook of mkdocs.yml: docs/ as it is in the tree becomes a site.

The contents are those of docs/README.md. The tree's pages that docs/ links to are pages of the site, too; a link
to any other file of the tree becomes its text.
"""

import os
import posixpath
import re

from mkdocs.structure.files import File

TREE = os.path.normpath(os.path.join(os.path.dirname(__file__), "../.."))
# Of the tree, outside docs/: the file, and its name in the site.
PAGES = {
    "README.md": "overview.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "tests/sim/README.md": "tests/sim/README.md",
}
SECTION = re.compile(r"^\*\*(.+)\*\*$")
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.M | re.S)
# What Python-Markdown wants of lists, and the pages lack: four columns for each level, and no fences in items.
NESTED = re.compile(r"^( {2,})(?=- )", re.M)
FENCED_ITEM = re.compile(r"^( +)```\w*\n(.*?)^\1```$", re.M | re.S)


def on_config(config):
    """The contents: each section of docs/README.md with the pages that it names first."""
    nav, seen = ["README.md", "overview.md"], set()
    with open(os.path.join(config.docs_dir, "README.md"), encoding="utf-8") as contents:
        for line in contents:
            if section := SECTION.match(line):
                nav.append({section[1]: []})
            for link in LINK.finditer(line):
                if link[3] not in seen and len(nav) > 2:
                    seen.add(link[3])
                    next(iter(nav[-1].values())).append(link[3])
    config.nav = [*nav, "CHANGELOG.md"]
    return config


def on_files(files, config):
    for source, name in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=os.path.join(TREE, source)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links by the paths of the tree become links by the paths of the site."""
    here = page.file.src_uri
    in_tree = next((source for source, name in PAGES.items() if name == here), "docs/" + here)

    def moved(link):
        kind, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target or re.match(r"[a-z]+:", target):
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(in_tree), target))
        name = target[len("docs/"):] if target.startswith("docs/") else PAGES.get(target)
        if name is None:
            if not os.path.exists(os.path.join(TREE, target)):
                return link[0]  # mkdocs warns
            return text
        return f"{kind}[{text}]({posixpath.relpath(name, posixpath.dirname(here) or '.')}{anchor})"

    def indented(block):
        return "\n" + re.sub(f"^{block[1]}", " " * 8, block[2], flags=re.M)

    parts = CODE.split(FENCED_ITEM.sub(indented, NESTED.sub(r"\1\1", markdown)))
    return "".join(part if number % 2 else LINK.sub(moved, part) for number, part in enumerate(parts))
