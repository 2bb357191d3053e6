/* What the vendored script of ignore rules exports itself into; loaded right before it. */
"use strict";

globalThis.module = { exports: {} };
