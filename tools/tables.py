"""What the scripts that write tables into docs/ share: numbers, Markdown, and the text between two markers."""
import json
import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "bench", "results")


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def short(v):
    if v is None:
        return "–"
    if abs(v) >= 99.5:
        return "%.0f" % v
    if abs(v) >= 9.95:
        return "%.1f" % v
    return "%.2f" % v if abs(v) >= 0.1 or v == 0 else "%.2g" % v


def cell(text):
    return str(text).replace("|", "\\|")


def table(head, rows):
    if not rows:
        return ""
    lines = [head, ["---"] * len(head)] + rows
    return "".join("| %s |\n" % " | ".join(cell(c) for c in line) for line in lines) + "\n"


def path_of(page):
    return os.path.join(ROOT, "docs", page)


def parts(page, maker):
    """A page of docs/: before the markers of `maker`, between them, after them."""
    begin, end = ("<!-- %s: %s -->\n" % (maker, word) for word in ("begin", "end"))
    with open(path_of(page), encoding="utf-8") as f:
        text = f.read()
    first, last = text.index(begin) + len(begin), text.index(end)
    return text[:first], text[first:last], text[last:]


def put(page, maker, text, check):
    """Writes `text` between the markers of `maker`. With `check` nothing is written; false: it would have changed."""
    before, old, after = parts(page, maker)
    if old == text:
        return True
    if not check:
        with open(path_of(page), "w", encoding="utf-8") as f:
            f.write(before + text + after)
    return not check
