"""plot.py - a dot plot of the timed rows as SVG: a line a row, time on a log axis."""

import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 900, 280, 30, 22, 70
# gpushim, then the peers in their order; told apart without colour by their shapes.
MARKS = [("#c0392b", "circle"), ("#1f618d", "square"), ("#1e8449", "diamond"),
         ("#b7950b", "up"), ("#6c3483", "down"), ("#117a65", "plus"), ("#555555", "cross"),
         ("#000000", "square"), ("#999999", "diamond")]
SHAPES = {
    "square": "M-4-4h8v8h-8z", "diamond": "M0-5L5 0L0 5L-5 0z", "up": "M0-5L5 4H-5z",
    "down": "M0 5L5-4H-5z", "plus": "M-5-1.5H-1.5V-5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5z",
    "cross": "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0z",
}


def mark(kind, x, y):
    colour, shape = MARKS[kind % len(MARKS)]
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
    return f'<path transform="translate({x:.1f} {y:.1f})" d="{SHAPES[shape]}" fill="{colour}"/>'


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def times_of(row, names):
    """gpushim's own time and the peers', None where there is none."""
    return [row["gpushim"]["own"],
            *(row["peers"].get(name, {}).get("p50") for name in names)]


def dots(bench):
    """The SVG document."""
    names = [way.name for way in bench.peers()]
    rows = [(row, times_of(row, names)) for row in bench.rows]
    values = [value for _, times in rows for value in times if value]
    low = math.floor(math.log10(min(values, default=1)))
    high = max(math.ceil(math.log10(max(values, default=10))), low + 1)
    height = TOP + ROW * len(rows) + 40

    def at(value):
        return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    title = "SIMULATED, own cost only: " if bench.device.simulated else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(10, 20, f"{title}nanoseconds a pair, less the device's calls (log axis)"),
    ]
    for kind, name in enumerate(["gpushim", *names]):
        x = 20 + kind * (WIDTH - 40) / (len(names) + 1)
        parts += [mark(kind, x, 44), text(x + 10, 48, name)]
    for power in range(low, high + 1):
        x = at(10**power)
        parts.append(f'<path d="M{x:.1f} {TOP - 8}V{height - 30}" stroke="#dddddd"/>')
        parts.append(text(x, height - 12, f"{10**power:g} ns", "middle"))
    for index, (row, times) in enumerate(rows):
        y = TOP + ROW * index + 8
        parts.append(text(LEFT - 10, y + 4, f"{row['scenario']}, {row['setting']}", "end"))
        parts.append(f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#eeeeee"/>')
        # gpushim last, so that it is on top.
        for kind in range(len(times) - 1, -1, -1):
            if times[kind]:
                parts.append(mark(kind, at(times[kind]), y))
    return "\n".join([*parts, "</svg>"]) + "\n"
