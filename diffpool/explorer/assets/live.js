/* sources fe000011994dcf84cb08c6afaeaf029752a9ec0b2f07bbc3cd4b1b6942adaa8a */
"use strict";(()=>{var o=async r=>{let t=await fetch(r,{cache:"no-store",redirect:"error",signal:AbortSignal.timeout(1e4)});if(!t.ok)throw new Error(String(t.status));return t.json()};Object.assign(globalThis,{diffpoolAsk:o});})();
