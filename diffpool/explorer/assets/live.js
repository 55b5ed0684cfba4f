/* sources 99cdd0125462e7bd73d0070fe44ebcf9ba09b80c6878138ec8f5f353e8c32e36 */
"use strict";(()=>{var o=async r=>{let t=await fetch(r,{cache:"no-store",redirect:"error",signal:AbortSignal.timeout(1e4)});if(!t.ok)throw new Error(String(t.status));return t.json()};Object.assign(globalThis,{diffpoolAsk:o});})();
