// The dialogs: native ones, so that the browser keeps the focus inside and gives it back.
import { cleanSettings, LIMITS } from "./chat.js";
import { $, h } from "./dom.js";
import * as store from "./store.js";

const NAMES = {
  temperature: "Temperature",
  top_p: "Top-p",
  top_k: "Top-k",
  min_p: "Min-p",
  max_tokens: "Max tokens",
  seed: "Seed",
};

export function startDialogs(shortcuts) {
  for (const dialog of document.querySelectorAll("dialog")) {
    // Where the pointer goes down counts: a selection may end outside.
    dialog.addEventListener("pointerdown", (event) => event.target === dialog && dialog.close(""));
    dialog.querySelector("[data-close]")?.addEventListener("click", () => dialog.close(""));
  }
  $("numbers").append(...Object.entries(LIMITS).map(numberField));
  $("shortcuts").append(...shortcuts.map(({ keys, does }) =>
    h("div", {}, h("dt", {}, ...keys.map((key) => h("kbd", {}, key))), h("dd", {}, does))));
  $("settings-reset").addEventListener("click", () => {
    for (const name of [...Object.keys(LIMITS), "system"]) form("settings").elements[name].value = "";
  });
}

function numberField([name, { min, max, step, hint }]) {
  const input = h("input", { type: "number", name, min, max, step, "aria-describedby": `hint-${name}`, id: `setting-${name}` });
  return h("div", { class: "number" }, h("label", { for: `setting-${name}` }, NAMES[name]), input,
    h("p", { class: "explain", id: `hint-${name}` }, hint));
}

const form = (id) => $(id).querySelector("form");

/** Opens a dialog; resolves with the value of the button that closed it, or "" when it was given up. */
function ask(id) {
  const dialog = $(id);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
}

/** Resolves with the new settings, or null; `defaults` are what the server takes for those left empty. */
export async function askSettings(settings, defaults) {
  const fields = form("settings").elements;
  for (const name of Object.keys(LIMITS)) fields[name].placeholder = defaults[name] ?? "default";
  for (const name of [...Object.keys(LIMITS), "system"]) fields[name].value = settings[name] ?? "";
  fields.theme.value = store.theme();
  if ((await ask("settings")) !== "save") return null;
  store.saveTheme(fields.theme.value);
  const chosen = { system: fields.system.value };
  for (const name of Object.keys(LIMITS)) if (fields[name].value !== "") chosen[name] = fields[name].valueAsNumber;
  return cleanSettings(chosen);
}

/** Resolves with {key, remember}, or null. */
export async function askKey() {
  if ($("key").open) return null; // several requests were refused at once
  const fields = form("key").elements;
  fields.key.value = "";
  const answer = await ask("key");
  const key = fields.key.value.trim();
  fields.key.value = "";
  return answer === "save" && key ? { key, remember: fields.remember.checked } : null;
}

/** Resolves with whether the conversation called `title` should be deleted. */
export async function askDelete(title) {
  $("confirm-text").textContent = `“${title}” is kept only in this browser; it cannot be brought back.`;
  return (await ask("confirm")) === "delete";
}

export const showHelp = () => ask("help");
