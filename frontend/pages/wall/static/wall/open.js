/* Sends the code that stands behind # in the link, and takes it out of the address and the history first. */
"use strict";

(() => {
  const code = location.hash.slice(1);
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  document.getElementById("code").value = code;
  document.getElementById("open-form").submit();
})();
