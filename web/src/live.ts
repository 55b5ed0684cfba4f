// On the page of `diffpool train --watch` only: asks its server. The page of `diffpool explore` has no such program.

import type { Ask } from "./training";

const TIMEOUT = 10_000;

const ask: Ask = async (address) => {
  const reply = await fetch(address, { cache: "no-store", redirect: "error", signal: AbortSignal.timeout(TIMEOUT) });
  if (!reply.ok) throw new Error(String(reply.status));
  return reply.json();
};

Object.assign(globalThis, { diffpoolAsk: ask });
