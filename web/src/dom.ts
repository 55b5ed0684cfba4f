// Elements are made by these functions alone: strings become text, never markup.

type Child = Node | string | null | false;
type Handler = (event: never) => void;
type Properties = Record<string, string | number | boolean | null | undefined | Handler>;

/** An element. Functions become listeners, `false` and null are left out, everything else is an attribute. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, properties, children);
  return element;
}

/** An element of an SVG drawing. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, properties, children);
  return element;
}

function fill(element: Element, properties: Properties, children: Child[]): void {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== false));
}

/** Replace the content of an element; the focus and the scroll position stay where they are. */
export function renew(element: HTMLElement, content: Node[]): void {
  const buttons = () => [...element.querySelectorAll<HTMLElement>("button, [tabindex]")];
  const focused = buttons().indexOf(document.activeElement as HTMLElement);
  const { scrollTop } = element;
  element.replaceChildren(...content);
  element.scrollTop = scrollTop;
  if (focused >= 0) buttons()[focused]?.focus({ preventScroll: true });
}

/** A square in a color. */
export function swatch(color: string): HTMLElement {
  const element = h("span", { class: "swatch", "aria-hidden": "true" });
  element.style.backgroundColor = color;
  return element;
}

/** A horizontal bar for a share from 0 to 1. */
export function bar(share: number, color?: string): HTMLElement {
  const inner = h("span");
  inner.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
  if (color) inner.style.backgroundColor = color;
  return h("span", { class: "bar", "aria-hidden": "true" }, inner);
}

export function option(value: string, text: string): HTMLOptionElement {
  return h("option", { value }, text);
}
