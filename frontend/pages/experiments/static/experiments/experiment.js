/* A running experiment follows the jobs of its queue. Charts are drawn anew when the page is opened. */
"use strict";

(() => {
  const queue = document.getElementById("members").dataset.queue;
  let planned = 0;
  Live.connect([`queue.${queue}`], (kind) => {
    if (planned || !["job", "jobs"].includes(kind)) return;
    planned = setTimeout(() => { planned = 0; Live.refresh(); }, 2000);
  });
})();
