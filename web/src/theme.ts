// Light or dark: chosen by the user, or by the system.

import type { State } from "./state";

const KEY = "diffpool-theme";

export function readTheme(): State["theme"] {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "auto";
  } catch {
    return "auto"; // the browser keeps nothing for files
  }
}

const system = matchMedia("(prefers-color-scheme: dark)");

/** Call a function when the theme of the system changes. */
export function onSystemTheme(call: () => void): void {
  system.addEventListener("change", call);
}

export function setTheme(theme: State["theme"]): void {
  const dark = theme === "dark" || (theme === "auto" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // as above
  }
}
