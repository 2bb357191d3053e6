/* Draws the figures that frontend/components/charts.py describes. Colours are names of tokens ("var(--q1)"), looked up
   here at each draw, so that a change of theme redraws with the same data. Charts.draw(id), Charts.extend(id, ...). */
"use strict";

const Charts = (() => {
  const drawn = new Set();
  const NARROW_PX = 420;
  const DAY_MS = 86_400_000;
  const token = (name) => {
    const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const inner = /^var\((--[a-z0-9-]+)\)$/.exec(value);
    return inner ? token(inner[1]) : value;
  };
  const resolved = (value) => {
    if (typeof value === "string") {
      const match = /^var\((--[a-z0-9-]+)\)$/.exec(value);
      return match ? token(match[1]) : value;
    }
    if (Array.isArray(value)) return value.map(resolved);
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item)]));
    return value;
  };
  const figureOf = (id) => {
    const script = document.getElementById(`${id}-figure`);
    return script ? JSON.parse(script.textContent) : null;
  };

  const draw = async (id) => {
    const element = document.getElementById(id);
    const figure = figureOf(id);
    if (!element || !figure) return;
    const { data, layout } = resolved(figure);
    if (!drawn.has(element)) element.replaceChildren();
    // On a small screen times stand side by side only if they are few. Days are few, and halves of them have one name.
    if (layout.xaxis?.type === "date" && element.clientWidth < NARROW_PX && !(layout.xaxis.dtick >= DAY_MS)) {
      delete layout.xaxis.dtick;
      Object.assign(layout.xaxis, { nticks: layout.xaxis.tickformat?.startsWith("%a") ? 4 : 5, tickangle: 0 });
    }
    // Some figures are lower on a phone, with fewer of their ticks.
    const narrow = matchMedia("(max-width: 859.98px)").matches && layout.meta?.narrow;
    if (narrow) {
      layout.height = narrow.height;
      for (const key of ["tickvals", "ticktext"]) layout.yaxis[key] = narrow.ticks.map((index) => layout.yaxis[key][index]);
    }
    await Plotly.react(element, data, layout, { displayModeBar: false, responsive: true });
    if (!drawn.has(element)) { drawn.add(element); keys(element); }
    element.dataset.drawn = "1";
  };

  /* Adds points to traces: values is {trace index: [y, ...]} for the times in x; keeps points from ``keepFrom`` on.
     With ``replaceLast`` the newest point moves to the new time instead of staying beside it. */
  const extend = (id, x, values, keepFrom, { replaceLast = false } = {}) => {
    const element = document.getElementById(id);
    const script = document.getElementById(`${id}-figure`);
    if (!element?.dataset.drawn || !script) return;
    const figure = JSON.parse(script.textContent);
    for (const [index, ys] of Object.entries(values)) {
      const trace = figure.data[index];
      if (!trace) continue;
      if (replaceLast) { trace.x.pop(); trace.y.pop(); }
      trace.x.push(...x);
      trace.y.push(...ys);
      const drop = keepFrom ? trace.x.findIndex((at) => at >= keepFrom) : 0;
      if (drop > 0) { trace.x.splice(0, drop); trace.y.splice(0, drop); }
    }
    if (keepFrom && figure.layout.xaxis?.range) figure.layout.xaxis.range = [keepFrom, x.at(-1)];
    script.textContent = JSON.stringify(figure).replaceAll("<", "\\u003C");
    if (!document.hidden) draw(id);
  };

  /* Arrow keys step through the points and read them out. */
  const keys = (element) => {
    let at = -1;
    element.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
      if (!step) { if (event.key === "Escape") Plotly.Fx.unhover(element); return; }
      const traces = element.data.map((trace, index) => ({ trace, index })).filter(({ trace }) => trace.x?.length && trace.hoverinfo !== "skip" && trace.type !== "heatmap");
      if (!traces.length) return;
      event.preventDefault();
      const length = traces[0].trace.x.length;
      at = Math.max(0, Math.min(length - 1, at < 0 && step === -1 ? length - 1 : at + step));
      const x = traces[0].trace.x[at];
      const unified = element.layout.hovermode === "x unified";
      if (unified) Plotly.Fx.hover(element, { xval: typeof x === "string" ? Date.parse(`${x.replace(" ", "T")}Z`) : x });
      else Plotly.Fx.hover(element, [{ curveNumber: traces[0].index, pointNumber: at }]);
      const said = (trace) => (trace.text?.[at] ? `${trace.name}: ${trace.text[at]}` : `${trace.name || "value"} ${trace.y[at]}`);
      const values = (unified ? traces : traces.slice(0, 1)).map(({ trace }) => said(trace)).join(", ");
      document.getElementById("announce").textContent = unified ? `${x}: ${values}` : values;
    });
  };

  const drawAll = () => document.querySelectorAll("[data-chart]").forEach((element) => draw(element.id));
  document.addEventListener("themechange", drawAll);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) drawAll(); });
  drawAll();
  return { draw, extend };
})();
globalThis.Charts = Charts;
