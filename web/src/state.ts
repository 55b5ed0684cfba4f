// What the user has chosen. Views listen to the values that they show.

/** A node of some level: level 0 is the input, the others have clusters. */
export interface Place {
  level: number;
  node: number;
}

export interface State {
  index: number; // of the chosen graph
  hover: Place | null;
  pinned: Place | null;
  soft: boolean; // soft memberships instead of first choices
  labels: boolean;
  weights: boolean;
  tab: "list" | "graph" | "data";
  theme: "auto" | "light" | "dark";
  search: string;
  truth: number | null;
  guess: number | null;
  result: "all" | "right" | "wrong";
  part: number | null; // training, validation or test graphs
  sort: string;
  matches: number[]; // the graphs in the list, in its order
  version: number; // of the overview, which changes during a training
}

type Key = keyof State;

export class Store {
  private listeners: { keys: Key[]; call: (state: State) => void }[] = [];

  constructor(readonly state: State) {}

  /** Change some values and call the listeners of those that are new. */
  set(changes: Partial<State>): void {
    const changed = (Object.keys(changes) as Key[]).filter((key) => changes[key] !== this.state[key]);
    Object.assign(this.state, changes);
    this.announce(changed);
  }

  /** Call the listeners of these values. */
  announce(changed: Key[]): void {
    for (const { keys, call } of this.listeners) {
      if (keys.some((key) => changed.includes(key))) call(this.state);
    }
  }

  /** Call a function, and forget the listeners that it adds when the one that is returned is called. */
  scoped(call: () => void): () => void {
    const before = this.listeners.length;
    call();
    const added = new Set(this.listeners.slice(before));
    return () => (this.listeners = this.listeners.filter((listener) => !added.has(listener)));
  }

  /** Call a function whenever one of these values changes. */
  on(keys: Key[], call: (state: State) => void): void {
    this.listeners.push({ keys, call });
  }
}

export function samePlace(a: Place | null, b: Place | null): boolean {
  return a?.level === b?.level && a?.node === b?.node;
}
