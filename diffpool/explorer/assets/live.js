/* sources 08b32e3c9396b0a26c72145618c9f83fae0b82ea8cce1205c219bbf6fd4587ad */
"use strict";(()=>{var o=async r=>{let t=await fetch(r,{cache:"no-store",redirect:"error",signal:AbortSignal.timeout(1e4)});if(!t.ok)throw new Error(String(t.status));return t.json()};Object.assign(globalThis,{diffpoolAsk:o});})();
