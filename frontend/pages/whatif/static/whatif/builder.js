/* Of the options of a policy, a locality or a mechanism only those of the chosen one are shown. */
"use strict";

(() => {
  const show = (select) => {
    for (const block of document.querySelectorAll(`[data-choice-of="${select.id}"]`)) block.hidden = block.dataset.choice !== select.value;
  };
  for (const select of document.querySelectorAll(".variant select[name*='.']")) {
    if (!document.querySelector(`[data-choice-of="${select.id}"]`)) continue;
    show(select);
    select.addEventListener("change", () => show(select));
  }
})();
