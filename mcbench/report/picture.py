"""A figure as a still picture (SVG), for where no script of plotly's runs: a notebook converted to
HTML, GitHub's and nbviewer's renderers, an editor. No browser is needed to draw it.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from mcbench.report.style import DASHES

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM, ROW = 62, 14, 44, 50, 18
INK, GRID = "#555b63", "#d9dbde"
CIVIDIS = ("#00204c", "#213d6b", "#555b6c", "#7b7a77", "#a59c74", "#d3c064", "#ffe945")


@dataclass
class Axis:
    """Values or categories along one side of a plot, from ``start`` to ``end`` in pixels."""

    low: float
    high: float
    start: float
    end: float
    names: Sequence[str] = ()

    def at(self, value: Any) -> float:
        """Where a value or a category lies; NaN where it is nowhere."""
        place = self.names.index(str(value)) if self.names else _number(value)
        return self.start + (place - self.low) / ((self.high - self.low) or 1) * (
            self.end - self.start
        )

    def ticks(self) -> list[tuple[float, str]]:
        """(pixel, text) of a few round values, or of every category."""
        if self.names:
            return [(self.at(name), name) for name in self.names]
        low, high = sorted((self.low, self.high))
        raw = (high - low) / 5 or 1.0
        unit = 10 ** math.floor(math.log10(raw))
        step = next(unit * many for many in (1, 2, 5, 10) if unit * many >= raw * 0.999)
        values = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step
        return [(self.at(value), f"{value:.6g}") for value in values]


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def picture(data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> str:
    """A figure of scatter, bar and heatmap traces as SVG, with its title, axes and legend."""
    data = [_unpacked(trace) for trace in data]
    named = [
        trace
        for trace in data
        if trace.get("name") and trace["type"] != "heatmap" and trace.get("showlegend") is not False
    ]
    named = list({str(trace["name"]): trace for trace in named}.values()) if len(named) > 1 else []
    height = layout.get("height", HEIGHT)
    margin = layout.get("margin", {}).get("t", TOP)
    body = [_text(10, 22, layout.get("title", {}).get("text", ""), "start", 15)]
    plots: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for trace in _stacked(data, layout):
        plots.setdefault((trace.get("xaxis", "x"), trace.get("yaxis", "y")), []).append(trace)
    room = (LEFT, margin, WIDTH - LEFT - RIGHT, height - margin - BOTTOM)
    for (x_name, y_name), traces in plots.items():
        body += _plot(traces, layout, x_name, y_name, room)
    for note in layout.get("annotations", ()):
        x, y = room[0] + note["x"] * room[2], room[1] + (1 - note["y"]) * room[3]
        body.append(_text(x, y - 4, note["text"], "middle", 12))
    line, x = 0, float(LEFT)
    for trace in named:
        wide = 34 + 6.6 * len(str(trace["name"]))
        if x > LEFT and x + wide > WIDTH - RIGHT:
            line, x = line + 1, float(LEFT)
        y = height + 8 + ROW * line
        body += [_key(trace, x, y), _text(x + 28, y + 4, trace["name"], "start")]
        x += wide
    total = height + (ROW * (line + 1) + 6 if named else 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" width="{WIDTH}" '
        f'height="{total}" font-family="sans-serif" font-size="11.5"><rect width="100%" '
        f'height="100%" fill="#fff"/>{"".join(body)}</svg>'
    )


def _unpacked(trace: Mapping[str, Any]) -> dict[str, Any]:
    """A trace with the arrays that plotly packs as arrays."""
    found = dict(trace)
    for name, value in trace.items():
        if isinstance(value, Mapping) and "bdata" in value:
            flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
            shape = [int(n) for n in str(value.get("shape", flat.size)).split(",")]
            found[name] = flat.reshape(shape)
    return found


def _plot(
    traces: Sequence[Mapping[str, Any]],
    layout: Mapping[str, Any],
    x_name: str,
    y_name: str,
    room: tuple[float, float, float, float],
) -> list[str]:
    """The marks of one plot with its axes; ``room`` is left, top, width, height of all plots."""
    left, top, width, height = room
    look = {
        side: layout.get(f"{side}axis{name[1:]}", {})
        for side, name in (("x", x_name), ("y", y_name))
    }
    wide, high = (look[side].get("domain", (0, 1)) for side in "xy")
    x = _axis(traces, "x", look["x"], left + wide[0] * width, left + wide[1] * width)
    y = _axis(traces, "y", look["y"], top + (1 - high[0]) * height, top + (1 - high[1]) * height)
    made = []
    for pixel, text in y.ticks():
        made += [
            _line(x.start, pixel, x.end, pixel, GRID),
            _text(x.start - 7, pixel + 4, text, "end"),
        ]
    made += [_text(pixel, y.start + 17, text, "middle") for pixel, text in x.ticks()]
    made.append(_text((x.start + x.end) / 2, y.start + 36, _title(look["x"]), "middle"))
    side = _text(0, 0, _title(look["y"]), "middle")
    made.append(f'<g transform="translate({x.start - 46:.1f} {(y.start + y.end) / 2:.1f}) '
                f'rotate(-90)">{side}</g>')  # fmt: skip
    bars = [trace for trace in traces if trace["type"] == "bar"]
    for trace in traces:
        if trace["type"] == "heatmap":
            made += _cells(trace, x, y)
        elif trace["type"] == "bar":
            together = layout.get("barmode") == "stack"
            made += _bars(trace, x, y, 0 if together else bars.index(trace),
                          1 if together else len(bars))  # fmt: skip
        else:
            made += _marks(trace, x, y)
    return made


def _title(look: Mapping[str, Any]) -> str:
    return str(look.get("title", {}).get("text", "") or "").replace("<br>", " ")


def _axis(
    traces: Sequence[Mapping[str, Any]],
    side: str,
    look: Mapping[str, Any],
    start: float,
    end: float,
) -> Axis:
    values = [v for trace in traces for v in trace.get(side, ()) if v is not None]
    if look.get("autorange") == "reversed":
        start, end = end, start
    if any(isinstance(value, str) for value in values):
        names = list(dict.fromkeys(map(str, values)))
        return Axis(-0.5, len(names) - 0.5, start, end, names)
    known = [float(v) for v in values if math.isfinite(float(v))]
    value_side = any(
        trace["type"] == "bar" and (trace.get("orientation") == "h") == (side == "x")
        for trace in traces
    )
    known += [0.0] if value_side or look.get("rangemode") == "tozero" else []
    known += [float(b) for t in traces if value_side for b in t.get("base", ())]
    low, high = look.get("range") or (min(known, default=0.0), max(known, default=1.0))
    pad = 0.0 if look.get("range") else 0.04 * ((high - low) or 1)
    return Axis(low if low == 0 else low - pad, high + pad, start, end)


def _stacked(
    data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The traces with those that stand on one another moved to where they are drawn."""
    made: list[Mapping[str, Any]] = []
    sums: dict[Any, np.ndarray] = {}
    for trace in data:
        lying = trace.get("orientation") == "h"
        if trace.get("stackgroup"):
            y = np.asarray(trace["y"], dtype=float)
            below = sums.get(trace["stackgroup"], np.zeros_like(y))
            sums[trace["stackgroup"]] = below + y
            x = np.asarray(trace["x"], dtype=float)
            area = {"x": np.append(x, x[::-1]), "y": np.append(below + y, below[::-1])}
            made.append({**trace, **area, "fill": "toself"})
        elif trace["type"] == "bar" and layout.get("barmode") == "stack":
            side, across = ("x", "y") if lying else ("y", "x")
            values = np.nan_to_num(np.array([_number(v) for v in trace[side]]))
            base = np.array([sums.get(str(name), np.zeros(1))[0] for name in trace[across]])
            sums |= {
                str(n): np.array([v]) for n, v in zip(trace[across], base + values, strict=True)
            }
            made.append({**trace, side: base + values, "base": base})
        else:
            made.append(trace)
    return made


def _marks(trace: Mapping[str, Any], x: Axis, y: Axis) -> list[str]:
    points = [(x.at(a), y.at(b)) for a, b in zip(trace["x"], trace["y"], strict=True)]
    line, marker = trace.get("line", {}), trace.get("marker", {})
    if trace.get("fill") == "toself":
        outline = " ".join(f"{a:.1f},{b:.1f}" for a, b in points if math.isfinite(a + b))
        return [f'<polygon points="{outline}" {_fill(trace["fillcolor"])}/>'] if outline else []
    mode, made = trace.get("mode", "lines"), []
    if "lines" in mode:
        path, pen = [], "M"
        for a, b in points:
            if math.isfinite(a + b):
                path.append(f"{pen}{a:.1f},{b:.1f}")
            pen = "L" if math.isfinite(a + b) else "M"
        made.append(f'<path d="{"".join(path)}" fill="none" {_stroke(line)}/>')
    if "markers" in mode:
        color = marker.get("color", line.get("color", INK))
        colors = [color] * len(points) if isinstance(color, str) else list(color)
        hollow = "open" in str(marker.get("symbol", ""))
        for (a, b), one in zip(points, colors, strict=True):
            if math.isfinite(a + b):
                paint = f'fill="#fff" stroke="{INK}"' if hollow else _fill(one)
                made.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.2" {paint}/>')
    return made


def _bars(trace: Mapping[str, Any], x: Axis, y: Axis, place: int, many: int) -> list[str]:
    lying = trace.get("orientation") == "h"
    names, values = (trace["y"], trace["x"]) if lying else (trace["x"], trace["y"])
    across, along = (y, x) if lying else (x, y)
    color = trace.get("marker", {}).get("color", INK)
    colors = [color] * len(names) if isinstance(color, str) else list(color)
    bases = trace.get("base", [0.0] * len(names))
    each = abs(across.end - across.start) / max(1.0, abs(across.high - across.low)) * 0.66
    made = []
    for name, value, base, one in zip(names, values, bases, colors, strict=True):
        middle, ends = across.at(name), sorted((along.at(base), along.at(value)))
        if not math.isfinite(ends[0] + ends[1]):
            continue
        side, thick, long = middle - each / 2 + each / many * place, each / many, ends[1] - ends[0]
        box = (ends[0], side, long, thick) if lying else (side, ends[0], thick, long)
        made.append('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" '.format(*box)
                    + f"{_fill(str(one))}/>")  # fmt: skip
    return made


def _cells(trace: Mapping[str, Any], x: Axis, y: Axis) -> list[str]:
    z = np.array([[_number(v) for v in row] for row in trace["z"]], dtype=float)
    if not z.size or np.isnan(z).all():
        return []
    low, high = trace.get("zmin", np.nanmin(z)), trace.get("zmax", np.nanmax(z))
    xs, ys = list(trace.get("x", range(z.shape[1]))), list(trace.get("y", range(z.shape[0])))
    wide, tall = abs(x.end - x.start) / z.shape[1], abs(y.end - y.start) / z.shape[0]
    made = []
    for i, j in np.argwhere(~np.isnan(z)):
        level = min(max((z[i, j] - low) / ((high - low) or 1), 0), 1)
        made.append(
            f'<rect x="{x.at(xs[j]) - wide / 2:.1f}" y="{y.at(ys[i]) - tall / 2:.1f}" '
            f'width="{wide + 0.4:.1f}" height="{tall + 0.4:.1f}" '
            f'fill="{CIVIDIS[round(level * (len(CIVIDIS) - 1))]}"/>'
        )
    return made


def _key(trace: Mapping[str, Any], x: float, y: float) -> str:
    if (
        trace["type"] == "scatter"
        and "lines" in trace.get("mode", "lines")
        and not trace.get("fill")
    ):
        return _line(x, y, x + 22, y, "", trace.get("line", {}))
    color = trace.get("fillcolor") or trace.get("marker", {}).get("color", INK)
    color = color if isinstance(color, str) else str(next(iter(color), INK))
    return f'<rect x="{x:.1f}" y="{y - 4:.1f}" width="22" height="8" {_fill(color)}/>'


def _line(x0: float, y0: float, x1: float, y1: float, color: str, line: Any = None) -> str:
    paint = _stroke(line) if line is not None else f'stroke="{color}"'
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" {paint}/>'


def _text(x: float, y: float, words: object, anchor: str, size: float = 11.5) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">'
        f"{escape(str(words))}</text>"
    )


def _fill(color: str) -> str:
    return f'fill="{escape(color)}"'


def _stroke(line: Mapping[str, Any]) -> str:
    dash = DASHES.get(str(line.get("dash", "")))
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    color, width = escape(str(line.get("color", INK))), line.get("width", 1.6)
    return f'stroke="{color}" stroke-width="{width}"{dashed}'
