// Small helpers over the DOM. Text always goes in as text nodes: there is no way here to insert markup.

/** An element. Attributes that are functions (`onclick`) become listeners; false and null ones are left out. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null && child !== false));
  return node;
}

export const $ = (id) => document.getElementById(id);

/** One of the symbols in index.html. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** A button that shows only an icon; `label` is its name for everybody else. */
export function iconButton(name, label, onclick, attributes = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...attributes },
    icon(name));
}

/** A button that copies what `text()` returns and says so. */
export function copyButton(label, text) {
  const button = iconButton("copy", label, async () => {
    await copy(text());
    button.replaceChildren(icon("check"));
    announce("Copied.");
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch {
    // Over plain http from another machine there is no clipboard API.
  }
  const field = h("textarea", { class: "hidden", "aria-hidden": "true" });
  field.value = text;
  const before = document.activeElement;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  before?.focus();
}

/** Has a screen reader say one sentence, once. */
export function announce(sentence) {
  const region = $("status");
  region.textContent = "";
  setTimeout(() => (region.textContent = sentence), 50); // an unchanged text would not be read again
}
