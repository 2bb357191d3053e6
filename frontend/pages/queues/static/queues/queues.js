/* Queue pages: what changed is fetched again from the server; a frame of a queue only says that it did. */
"use strict";

Live.connect(JSON.parse(document.getElementById("live-groups").textContent), (kind) => {
  if (kind === "queue" || kind === "jobs" || kind === "event") Live.refresh();
});
