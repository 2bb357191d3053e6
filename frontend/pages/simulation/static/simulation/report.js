/* Lets a reader choose an arm: its lines take the accent, and its charts over time are shown. */
"use strict";

(() => {
  const table = document.getElementById("figures");
  const comparisons = ["jct", "waits", "rho", "queue-waits"];
  const dashes = ["dash", "dot", "dashdot", "longdash"];
  const count = table.tBodies[0].rows.length;

  const strokes = (chosen) => {
    let next = 0;
    return Array.from({ length: count }, (_, arm) => {
      if (arm === 0) return { token: "text", width: 2.25, dash: "solid", kind: "line" };
      if (arm === chosen) return { token: "accent", width: 2.5, dash: "solid", kind: "line" };
      return { token: "text-3", width: 1.5, dash: dashes[next++ % dashes.length], kind: dashes[(next - 1) % dashes.length] };
    });
  };

  let chosenNow = null;
  const choose = (chosen) => {
    chosenNow = chosen;
    for (const row of table.tBodies[0].rows) {
      const on = count > 1 && Number(row.dataset.arm) === chosen;
      row.classList.toggle("on", on && chosen > 0);
      row.querySelector("[data-choose]")?.setAttribute("aria-pressed", String(on));
    }
    const drawn = strokes(chosen);
    table.querySelectorAll(".stroke").forEach((stroke, arm) => { stroke.className = `stroke ${drawn[arm].kind}`; });
    for (const id of count > 1 ? comparisons : []) {
      const script = document.getElementById(`${id}-figure`);
      if (!script) continue;
      const figure = JSON.parse(script.textContent);
      figure.data.forEach((trace, arm) => {
        const color = `var(--${drawn[arm].token})`;
        if (trace.line) trace.line = { ...trace.line, color, width: drawn[arm].width, dash: drawn[arm].dash };
        if (trace.marker) trace.marker.color = color;
      });
      script.textContent = JSON.stringify(figure).replaceAll("<", "\\u003C");
      document.getElementById(id).closest("figure").querySelectorAll(".legend i").forEach((swatch, arm) => {
        swatch.className = drawn[arm].kind;
        swatch.style.setProperty("--c", `var(--${drawn[arm].token})`);
      });
      Charts.draw(id);
    }
    for (const part of document.querySelectorAll("[data-arm-part]")) {
      part.hidden = Number(part.dataset.armPart) !== chosen;
      if (part.hidden) continue;
      // A chart that was never shown has no size to be drawn in.
      part.querySelectorAll("[data-later]").forEach((chart) => {
        chart.removeAttribute("data-later");
        chart.setAttribute("data-chart", "");
        Charts.draw(chart.id);
      });
    }
  };

  table.addEventListener("click", (event) => {
    const row = event.target.closest("[data-arm]");
    if (row && count > 1) choose(Number(row.dataset.arm));
  });
  // Live updates draw the figures as the server sends them, with its own choice.
  document.addEventListener("liverefresh", () => { if (chosenNow !== null) choose(chosenNow); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("themechange")));
  document.querySelectorAll("[data-choose]").forEach((button, arm) => button.setAttribute("aria-pressed", String(arm === Number(table.dataset.chosen))));
})();
