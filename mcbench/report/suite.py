"""The labelled suite under several judges, as tables and figures (the paper's claim E1)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mcbench.experiments.labelled import METHOD, PARTS, SuiteRecord
from mcbench.report.base import Figure, axes_of, grid_figure, new_figure
from mcbench.report.style import BLUE, GREEN, ORANGE

OURS, THEIRS = "microcoder", "livecodebench"
JUDGES = {
    OURS: "MicroCoder",
    THEIRS: "LiveCodeBench",
    METHOD: "LiveCodeBench with its execution",
    "deepcoder": "DeepCoder",
    "verl_prime": "verl (prime)",
    "sandbox_fusion": "SandboxFusion",
}
PART_COLORS = dict(zip(PARTS, (BLUE, GREEN, ORANGE), strict=True))


def judge_name(judge: str) -> str:
    """A judge's name for people."""
    return JUDGES.get(judge, judge)


def misjudged(record: SuiteRecord, *by: str) -> pd.DataFrame:
    """How often each judge erred, by judge and by any of ``part`` and ``group``.

    Columns: ``right`` and ``wrong`` (cases of that label that the judge was given), ``rejected``
    (right ones it refused) and ``accepted`` (wrong ones it accepted).
    """
    rows = [
        {
            "judge": judge,
            "part": case.part,
            "group": case.group,
            "right": int(case.right),
            "wrong": int(not case.right),
            "rejected": int(case.right and not case.accepted[judge]),
            "accepted": int(not case.right and case.accepted[judge]),
        }
        for judge in record.judges
        for case in record.cases
        if judge in case.accepted
    ]
    counts = ["right", "wrong", "rejected", "accepted"]
    table = pd.DataFrame(rows, columns=["judge", "part", "group", *counts])
    return table.groupby(["judge", *by], sort=False)[counts].sum().reset_index()


def suite_table(record: SuiteRecord) -> pd.DataFrame:
    """One line per judge and part, for people."""
    table = misjudged(record, "part")
    return pd.DataFrame(
        {
            "Rules": table["judge"].map(judge_name),
            "Part": table["part"],
            "Right cases": table["right"],
            "wrongly refused": table["rejected"],
            "% refused": 100 * table["rejected"] / table["right"].where(table["right"] > 0),
            "Wrong cases": table["wrong"],
            "wrongly accepted": table["accepted"],
            "% accepted": 100 * table["accepted"] / table["wrong"].where(table["wrong"] > 0),
        }
    )


_KINDS = (
    ("rejected", "right", "Right ones refused"),
    ("accepted", "wrong", "Wrong ones accepted"),
)


def bars_height(record: SuiteRecord) -> int:
    """Pixels that :func:`suite_bars` needs."""
    return 90 + 62 * len(record.judges)


def groups_height(rows: int) -> int:
    """Pixels that :func:`suite_groups` needs for so many groups."""
    return 110 + 24 * rows


def suite_bars(record: SuiteRecord) -> Figure:
    """False rejects and false accepts in percent, by judge and part of the suite."""
    figure = grid_figure("", ["", ""], gap=0.08)
    table = misjudged(record, "part")
    for part in PARTS:
        rows = table[table["part"] == part]
        for place, (errors, label, _) in enumerate(_KINDS):
            shown = rows[rows[label] > 0]
            figure.add(
                "bar",
                x=100 * shown[errors] / shown[label],
                y=shown["judge"].map(judge_name),
                text=[f"{e}/{n}" for e, n in zip(shown[errors], shown[label], strict=True)],
                name=part,
                orientation="h",
                marker={"color": PART_COLORS[part]},
                textposition="outside",
                cliponaxis=False,
                showlegend=place == 0,
                hovertemplate="%{y}: %{x:.1f} % (%{text})",
                **axes_of(place),
            )
    names = [judge_name(judge) for judge in record.judges]
    figure.update(
        barmode="group",
        bargap=0.3,
        hovermode="closest",
        height=bars_height(record),
        legend={"traceorder": "normal"},
    )
    for place, (errors, label, title) in enumerate(_KINDS):
        highest = (100 * table[errors] / table[label].where(table[label] > 0)).max()
        room = 1.2 * max(1.0, float(np.nan_to_num(highest)))  # for the counts beside the bars
        number = str(place + 1) if place else ""
        figure.update(
            **{
                f"xaxis{number}": {
                    "title": {"text": f"{title} (%)"},
                    "range": [0, room],
                    "showgrid": True,
                },
                f"yaxis{number}": {
                    "showgrid": False,
                    "categoryorder": "array",
                    "categoryarray": names[::-1],
                    **({"matches": "y"} if place else {}),
                    "showticklabels": place == 0,
                },
            }
        )
    return figure


def suite_groups(record: SuiteRecord, errors: str) -> Figure:
    """Errors by group of cases and judge, in percent; groups without any error are left out.

    Args:
        errors: ``rejected`` (right cases refused) or ``accepted`` (wrong cases accepted).
    """
    label, title = next((label, title) for kind, label, title in _KINDS if kind == errors)
    table = misjudged(record, "part", "group")
    table = table[table[label] > 0]
    table["name"] = table["part"] + ": " + table["group"]
    totals = table.groupby("name", sort=False)[errors].sum()
    names = list(totals[totals > 0].index)
    share = table.assign(share=100 * table[errors] / table[label])
    cells = share.pivot(index="name", columns="judge", values="share")
    texts = share.assign(text=share[errors].astype(str) + "/" + share[label].astype(str))
    words = texts.pivot(index="name", columns="judge", values="text").fillna("")
    judges = list(record.judges)
    figure = new_figure(f"{title}, by group of cases (%)", "", x_title="")
    figure.add(
        "heatmap",
        z=cells.reindex(index=names, columns=judges).to_numpy(dtype=float),
        x=[judge_name(judge).replace(" with", "<br>with") for judge in judges],
        y=names,
        text=words.reindex(index=names, columns=judges, fill_value="").to_numpy(),
        texttemplate="%{text}",
        colorscale="Cividis",
        zmin=0,
        zmax=100,
        colorbar={"title": {"text": "%"}, "thickness": 10},
        hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
    )
    return figure.update(
        height=groups_height(len(names)),
        hovermode="closest",
        xaxis={"tickangle": 0, "tickfont": {"size": 11}},
        yaxis={"autorange": "reversed", "showgrid": False, "tickmode": "linear"},
    )
