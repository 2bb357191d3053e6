"""Gantt chart of the jobs on the first servers, with the utilization of the whole cluster below it."""

from collections.abc import Sequence

import numpy as np

from frontend.components.charts import Chart, Json, count_axis, layout, line, plain, token
from frontend.components.formats import counted, duration, number
from frontend.pages.simulation.scales import elapsed_axis
from scheduler.simulator.report.curves import Gantt
from scheduler.simulator.report.figures import Figures

_BELOW_PX = 90
# One line over bars and utilization at the moment under the pointer.
_CURSOR: Json = {
    "showspikes": True,
    "spikemode": "across",
    "spikesnap": "cursor",
    "spikethickness": 1,
    "spikedash": "solid",
    "spikecolor": token("text-3"),
}


def gantt_chart(seats: Gantt, arm: Figures, colors: Sequence[str], prefix: str) -> Chart:
    """Draw each stay as a bar over the GPUs it held; coloured by queue where there are several."""
    gpus = arm.server_gpus
    offsets = np.concatenate(([0], np.cumsum([count + 1 for count in gpus[: seats.num_servers]]))).tolist()
    names = arm.bar_names
    servers = [*arm.server_names, *(f"server {row}" for row in range(len(arm.server_names), seats.num_servers))]
    one_queue = len(arm.queue_names) == 1
    trace: Json = {
        "type": "bar",
        "orientation": "h",
        "name": "jobs",
        "base": [round((bar.begin_s - seats.from_s) / 3_600, 4) for bar in seats.bars],
        "x": [round((bar.end_s - bar.begin_s) / 3_600, 4) for bar in seats.bars],
        "y": [offsets[bar.server] + bar.lane + bar.height / 2 for bar in seats.bars],
        "width": [bar.height * 0.94 for bar in seats.bars],
        "marker": {
            "color": [
                token(f"u{3 + bar.job % 3}" if one_queue else colors[queue])
                for bar, queue in zip(seats.bars, arm.bar_queues, strict=True)
            ],
            "line": {"color": token("surface"), "width": 0.5},
        },
        "text": [
            f"{plain(name)}: {counted(asked, 'GPU')}, {duration(bar.end_s - bar.begin_s)} "
            f"on {plain(servers[bar.server])}"
            for name, asked, bar in zip(names, arm.bar_gpus, seats.bars, strict=True)
        ],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }
    y: Json = {
        "range": [offsets[-1] - 1, 0],
        "tickvals": [offset + count / 2 for offset, count in zip(offsets, gpus[: seats.num_servers], strict=False)],
        "ticktext": [plain(name) for name in servers],
        "showgrid": False,
    }
    height = 60 + min(420, 13 * offsets[-1])
    span_h = (seats.until_s - seats.from_s) / 3_600
    x = elapsed_axis(span_h) | {"fixedrange": False, **_CURSOR}
    more: Json = {"barmode": "overlay", "hovermode": "closest", "dragmode": "zoom", "spikedistance": -1}
    data = [trace]
    if seats.use:
        below, use_axis = _use_below(seats.use, span_h, arm.num_gpus)
        data.append(below)
        height += _BELOW_PX
        split = _BELOW_PX / height
        y["domain"] = [split, 1]
        more["yaxis2"] = use_axis | {"domain": [0, split - 0.08]}
        x["anchor"] = "y2"
    figure: Json = {"data": data, "layout": layout(height=height, left=76, x=x, y=y, **more)}
    return Chart(
        id=f"{prefix}-gantt",
        title=f"Which jobs were on the first {counted(seats.num_servers, 'server')} "
        f"in the first {duration(seats.until_s - seats.from_s)}",
        sub="One bar for each stay, as high as its GPUs; drag to zoom, double-click to go back. "
        + ("Shades only tell neighbours apart" if one_queue else "Colours are queues")
        + (". Below: GPUs allocated in the whole cluster at that time" if seats.use else "")
        + (f". Cut after {number(len(seats.bars))} bars" if seats.cut else ""),
        figure=figure,
        table_head=("Job", "Server", "GPUs", "From", "For"),
        table_rows=[
            (
                name,
                servers[bar.server],
                str(bar.height),
                duration(bar.begin_s - seats.from_s),
                duration(bar.end_s - bar.begin_s),
            )
            for name, bar in list(zip(names, seats.bars, strict=True))[:200]
        ],
        height=height,
    )


def _use_below(use: Sequence[float], span_h: float, num_gpus: int) -> tuple[Json, Json]:
    """Return the utilization of the cluster in the time of a Gantt chart, and its axis below the bars."""
    x = [round(at * span_h / len(use), 4) for at in range(len(use))]
    trace = line("allocated", x, list(use), color="u5", width=1.5, shape="hv")
    trace |= {
        "yaxis": "y2",
        "fill": "tozeroy",
        "fillcolor": token("u2"),
        "hovertemplate": f"%{{y:,.0f}} of {number(num_gpus)} GPUs allocated<extra></extra>",
    }
    axis = layout(y=count_axis(num_gpus))["yaxis"]
    axis |= {"tickvals": [0, num_gpus], "ticktext": ["0", number(num_gpus)], "anchor": "x"}
    return trace, axis
