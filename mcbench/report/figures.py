"""Plotly figures from run records.

Every figure that compares arms is drawn alike: a thin line per seed, the mean over seeds in bold,
and from three seeds on the mean's 95 % t interval as a band. Traces carry the arm's name as
``legendgroup``, by which a page switches an arm on and off in all of its figures at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mcbench.report.series import Arms, Curve, Record, by_step, eval_curves, step_curves
from mcbench.report.series import smooth as smoothed
from mcbench.report.style import NEUTRAL_GRID, NEUTRAL_TEXT, ArmStyle, arm_styles

STEPS = "Training step (optimizer updates)"
SMOOTHING = 5  # steps; per-step measurements come from one batch and are noisy


def new_figure(title: str, y_title: str, *, x_title: str = STEPS, y_format: str = "") -> go.Figure:
    """An empty figure in the house style: no box, no ticks, hairline grid, transparent ground."""
    figure = go.Figure()
    restyle(figure, title)
    figure.update_xaxes(title_text=x_title)
    figure.update_yaxes(title_text=y_title, tickformat=y_format)
    return figure


def restyle(figure: go.Figure, title: str) -> None:
    """The house style; also for figures with several panels."""
    figure.update_layout(
        title={"text": title, "x": 0, "xanchor": "left", "font": {"size": 15}},
        template="none",
        font={"family": "system-ui, sans-serif", "size": 12, "color": NEUTRAL_TEXT},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 58, "r": 14, "t": 44, "b": 46},
        height=320,
        hovermode="x unified",
        hoverlabel={"font": {"size": 12}},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": NEUTRAL_TEXT},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 1, "xanchor": "right"},
    )
    axis = {
        "gridcolor": NEUTRAL_GRID,
        "zeroline": False,
        "showline": False,
        "automargin": True,
        "ticks": "outside",  # invisible: they keep the labels off the plot
        "ticklen": 6,
        "tickcolor": "rgba(0,0,0,0)",
        "title": {"standoff": 8, "font": {"size": 12}},
    }
    figure.update_xaxes(**axis, showgrid=False)
    figure.update_yaxes(**axis, nticks=6)


def add_curve(
    figure: go.Figure,
    curve: Curve,
    style: ArmStyle,
    *,
    markers: bool = False,
    legend: bool = True,
    hover: str = "%{y:.3g}",
    row: int | None = None,
    col: int | None = None,
) -> None:
    """Seeds, band and mean of one arm, in that order from back to front."""
    place = {"row": row, "col": col} if row else {}
    common = {"legendgroup": curve.arm, "showlegend": False}
    many = curve.runs.shape[0] > 1 or not np.array_equal(curve.runs[0], curve.mean)
    for values in curve.runs if many else []:
        line = {"color": style.fill(0.28), "width": 1}
        figure.add_scatter(
            x=curve.x, y=values, mode="lines", line=line, hoverinfo="skip", **common, **place
        )
    if not np.isnan(curve.low).all():
        band = ~np.isnan(curve.low)
        figure.add_scatter(
            x=np.concatenate([curve.x[band], curve.x[band][::-1]]),
            y=np.concatenate([curve.high[band], curve.low[band][::-1]]),
            mode="lines",
            fill="toself",
            fillcolor=style.fill(0.14),
            line={"width": 0},
            hoverinfo="skip",
            **common,
            **place,
        )
    figure.add_scatter(
        x=curve.x,
        y=curve.mean,
        name=style.label,
        mode="lines+markers" if markers else "lines",
        line={"color": style.color, "width": 2.4, "dash": style.dash},
        marker={"size": 6, "color": style.color},
        hovertemplate=hover,
        legendgroup=curve.arm,
        showlegend=legend,
        **place,
    )


def compare(
    curves: Sequence[Curve],
    arms: Arms,
    title: str,
    y_title: str,
    *,
    y_format: str = "",
    hover: str = "%{y:.3g}",
    markers: bool = False,
    from_zero: bool = False,
) -> go.Figure:
    """One figure with a curve per arm."""
    figure = new_figure(title, y_title, y_format=y_format)
    styles = arm_styles(arms)
    for curve in curves:
        add_curve(figure, curve, styles[curve.arm], markers=markers, hover=hover)
    if from_zero:
        figure.update_yaxes(rangemode="tozero")
    return figure


def step_figure(
    arms: Arms,
    column: str,
    title: str,
    y_title: str,
    *,
    scale: float = 1.0,
    hover: str = "%{y:.3g}",
    from_zero: bool = False,
) -> go.Figure:
    """A logged column over training, the bold line a running mean over ``SMOOTHING`` steps."""
    curves = [smoothed(curve, SMOOTHING) for curve in step_curves(arms, column, scale)]
    return compare(curves, arms, title, y_title, hover=hover, from_zero=from_zero)


def accuracy(arms: Arms, length: int, title: str = "") -> go.Figure:
    """Held-out pass@1 in percent at one maximum response length (tokens)."""
    curves = eval_curves(arms, "pass_at_1", length, scale=100)
    return compare(
        curves,
        arms,
        title or f"Held-out pass@1, up to {length} tokens",
        "pass@1 (%)",
        markers=True,
        hover="%{y:.1f} %",
    )


def reward(arms: Arms) -> go.Figure:
    """Mean training reward, the share of sampled responses that pass every test."""
    return step_figure(
        arms, "reward", "Training reward", "Responses passing (%)", scale=100, hover="%{y:.1f} %"
    )


def response_length(arms: Arms) -> go.Figure:
    """Mean length of the sampled responses."""
    return step_figure(
        arms,
        "completions/mean_length",
        "Response length",
        "Mean length (tokens)",
        hover="%{y:.0f} tokens",
    )


def truncated_share(arms: Arms) -> go.Figure:
    """Share of responses that reached the maximum length without ending."""
    return step_figure(
        arms,
        "completions/clipped_ratio",
        "Truncated responses",
        "Cut at the limit (%)",
        scale=100,
        hover="%{y:.1f} %",
        from_zero=True,
    )


def masked_share(arms: Arms) -> go.Figure:
    """Share of responses whose advantage the truncation mask set to zero."""
    return step_figure(
        arms,
        "mask/share",
        "Masked responses",
        "Advantage set to 0 (%)",
        scale=100,
        hover="%{y:.2f} %",
        from_zero=True,
    )


DIVERSITY = {
    "diversity/distinct_4": ("Distinct-4", "Unique 4-grams / all 4-grams"),
    "diversity/distinct_1": ("Distinct-1", "Unique tokens / all tokens"),
    "diversity/self_bleu": ("Self-BLEU", "Self-BLEU (lower: more varied)"),
    "diversity/unique_programs": ("Unique programs", "Distinct programs / responses"),
}


def diversity(arms: Arms, column: str = "diversity/distinct_4") -> go.Figure:
    """One diversity measure, pooled over a prompt's responses and averaged over prompts."""
    title, y_title = DIVERSITY[column]
    return step_figure(arms, column, title, y_title, hover="%{y:.3f}")


def entropy(arms: Arms) -> go.Figure:
    """Mean token entropy of the policy on its own samples."""
    return step_figure(arms, "entropy", "Token entropy", "Entropy (nats per token)")


def kl(arms: Arms) -> go.Figure:
    """KL divergence to the untrained model, in the arms that have a KL term."""
    return step_figure(arms, "kl", "KL to the untrained model", "KL (nats per token)")


def clip_ratio(arms: Arms, side: str) -> go.Figure:
    """Share of tokens whose probability ratio was clipped, at the ``low`` or the ``high`` bound."""
    bound = "below 1 − ε_low" if side == "low" else "above 1 + ε_high"
    return step_figure(
        arms,
        f"clip_ratio/{side}_mean",
        f"Clipped {bound}",
        "Tokens clipped (%)",
        scale=100,
        hover="%{y:.2f} %",
        from_zero=True,
    )


def _mean_over_seeds(records: Sequence[Record], column: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps (N,) and the mean over seeds of a logged column (N,), running mean over steps."""
    curves = step_curves({"": records}, column)
    if not curves:
        return np.array([]), np.array([])
    curve = smoothed(curves[0], SMOOTHING)
    return curve.x, curve.mean


def length_spread(arm: str, records: Sequence[Record], limit: int | None = None) -> go.Figure:
    """One arm's lengths: 10th to 90th percentile, median, and the means of right and wrong ones."""
    style = arm_styles([arm])[arm]
    figure = new_figure(style.label, "Length (tokens)")
    x, low = _mean_over_seeds(records, "length/p10")
    _, high = _mean_over_seeds(records, "length/p90")
    if x.size:
        figure.add_scatter(
            x=np.concatenate([x, x[::-1]]),
            y=np.concatenate([high, low[::-1]]),
            mode="lines",
            fill="toself",
            fillcolor=style.fill(0.14),
            line={"width": 0},
            name="10th–90th percentile",
            hoverinfo="skip",
        )
    for column, name, dash, width in (
        ("length/p50", "median", "solid", 2.4),
        ("length/correct_mean", "right", "dash", 1.6),
        ("length/incorrect_mean", "wrong", "dot", 1.6),
    ):
        x, y = _mean_over_seeds(records, column)
        line = {"color": style.color, "dash": dash, "width": width}
        figure.add_scatter(x=x, y=y, name=name, line=line, hovertemplate="%{y:.0f}", mode="lines")
    if limit:
        figure.add_hline(limit, line={"color": NEUTRAL_TEXT, "width": 1, "dash": "dot"})
        figure.update_yaxes(range=[0, limit * 1.06])
    return figure


GROUPS = (
    ("group/all_pass", "all pass", 0.85),
    ("group/mixed", "mixed", 0.45),
    ("group/all_fail", "all fail", 0.14),
)


def group_outcomes(arm: str, records: Sequence[Record]) -> go.Figure:
    """One arm's prompts by outcome of their group; only mixed groups carry a gradient."""
    style = arm_styles([arm])[arm]
    figure = new_figure(style.label, "Prompts (%)")
    for column, name, alpha in GROUPS:
        x, y = _mean_over_seeds(records, column)
        figure.add_scatter(
            x=x,
            y=100 * y,
            name=name,
            stackgroup="outcome",
            mode="lines",
            line={"width": 0.5, "color": style.color},
            fillcolor=style.fill(alpha),
            hovertemplate="%{y:.0f} %",
        )
    figure.update_yaxes(range=[0, 100])
    return figure


def time_split(arms: Arms) -> go.Figure:
    """Seconds per update: sampling, scoring, and everything else (forward, backward, optimizer)."""
    figure = new_figure("Time per update", "", x_title="Seconds per update")
    labels = {arm: style.label for arm, style in arm_styles(arms).items()}
    split = {arm: time_parts(records) for arm, records in arms.items()}
    split = {arm: parts for arm, parts in split.items() if parts}
    for part, alpha in (("sampling", 0.9), ("scoring", 0.55), ("update", 0.25)):
        figure.add_bar(
            y=[labels[arm] for arm in split],
            x=[parts[part] for parts in split.values()],
            name=part,
            orientation="h",
            marker={"color": [arm_styles(arms)[arm].fill(alpha) for arm in split]},
            hovertemplate="%{x:.2f} s",
        )
    figure.update_layout(
        barmode="stack", hovermode="y unified", bargap=0.45, legend={"traceorder": "normal"}
    )
    figure.update_xaxes(showgrid=True)
    figure.update_yaxes(showgrid=False, autorange="reversed")
    return figure


def time_parts(records: Sequence[Record]) -> dict[str, float]:
    """Mean seconds per update by part; empty when times were not logged."""
    rows = [record for record in records if "step_time" in record.steps.columns]
    if not rows:
        return {}

    def per_update(column: str) -> float:
        sums = [by_step(r.steps, column).sum() for r in rows if column in r.steps.columns]
        return float(np.sum(sums)) / updates if sums else 0.0

    updates = sum(by_step(record.steps, "step_time").size for record in rows)
    sampling, scoring = per_update("time/generate_s"), per_update("time/reward_s")
    rest = max(0.0, per_update("step_time") - sampling - scoring)
    return {"sampling": sampling, "scoring": scoring, "update": rest}


def overview(arms: Arms, lengths: Sequence[int], title: str = "") -> go.Figure:
    """The paper's Fig. 7 in one figure: accuracy per test length, response length, diversity."""
    panels: list[tuple[str, list[Curve], str]] = [
        (f"pass@1 (%), up to {n} tokens", eval_curves(arms, "pass_at_1", n, 100), "%{y:.1f} %")
        for n in lengths
    ]
    for column, name in (
        ("completions/mean_length", "response length (tokens)"),
        ("diversity/distinct_4", "diversity (Distinct-4)"),
    ):
        panels.append(
            (name, [smoothed(c, SMOOTHING) for c in step_curves(arms, column)], "%{y:.3g}")
        )
    rows = (len(panels) + 1) // 2
    figure = make_subplots(
        rows=rows,
        cols=2,
        subplot_titles=[panel[0] for panel in panels],
        horizontal_spacing=0.09,
        vertical_spacing=0.16,
    )
    restyle(figure, title)
    styles = arm_styles(arms)
    for index, (_, curves, hover) in enumerate(panels):
        row, col = index // 2 + 1, index % 2 + 1
        for curve in curves:
            evaluated = index < len(lengths)
            add_curve(
                figure,
                curve,
                styles[curve.arm],
                markers=evaluated,
                legend=index == 0,
                hover=hover,
                row=row,
                col=col,
            )
    figure.update_xaxes(title_text=STEPS, row=rows)
    figure.update_annotations(font={"size": 12.5})
    figure.update_layout(
        height=300 * rows + 60, margin={"t": 84}, legend={"y": 1.08 if rows > 1 else 1.14}
    )
    return figure
