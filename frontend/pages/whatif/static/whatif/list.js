/* The list follows the scenarios that run. */
"use strict";

Live.connect(JSON.parse(document.getElementById("whatif-open").textContent).map((id) => `scenario.${id}`), (kind) => {
  if (kind === "scenario") Live.refresh();
});
