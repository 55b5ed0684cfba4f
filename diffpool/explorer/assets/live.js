/* sources 04ffc5475c7c781c06bb0d72b3e59cd1862ee7d83afb6fc6b4539a4db3f99d93 */
"use strict";(()=>{var o=async r=>{let t=await fetch(r,{cache:"no-store",redirect:"error",signal:AbortSignal.timeout(1e4)});if(!t.ok)throw new Error(String(t.status));return t.json()};Object.assign(globalThis,{diffpoolAsk:o});})();
