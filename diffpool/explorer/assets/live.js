/* sources 858b1fcab431ff280f4e57b4252f10aa39c0ed9c5bfc76e39310b82e61da6618 */
"use strict";(()=>{var o=async r=>{let t=await fetch(r,{cache:"no-store",redirect:"error",signal:AbortSignal.timeout(1e4)});if(!t.ok)throw new Error(String(t.status));return t.json()};Object.assign(globalThis,{diffpoolAsk:o});})();
