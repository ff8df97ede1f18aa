// The messages of the conversation that is shown.
import { path, siblings } from "./chat.js";
import { $, copyButton, h, icon, iconButton } from "./dom.js";
import { renderMarkdown } from "./markdown.js";

const EXAMPLES = [
  "Why is the sky blue?",
  "Write a haiku about a volcano in the snow.",
  "Explain recursion with a short example in Python.",
];
const NEAR = 60; // pixels from the end that still count as being at the end

const parts = new Map(); // message id -> the parts of its article that change while it is written
let follow = true; // the view stays at the end while an answer grows

/**
 * Shows the branch of `chat` that ends with its leaf. `growing` is the message being written, if any.
 * `on` has what the buttons do: ask(text), edit(message, text), again(message), retry(message), branch(message).
 * Messages that stay keep their nodes, and so what is selected, opened and scrolled in them.
 */
export function showMessages(chat, growing, on) {
  const top = $("scroll").scrollTop;
  const list = $("messages");
  const messages = path(chat);
  const shown = [...parts.keys()];
  let same = 0;
  while (same < shown.length && shown[same] === messages[same]?.id) same++;
  while (list.childNodes.length > same) list.lastChild.remove();
  for (const id of shown.slice(same)) parts.delete(id);
  if (!messages.length) list.append(empty(on));
  list.append(...messages.slice(same).map(article));
  for (const message of messages) {
    drawActions(chat, message, growing, on);
    updateMessage(message, message === growing);
  }
  if (follow) keepAtEnd();
  else $("scroll").scrollTop = top;
}

function empty(on) {
  const examples = EXAMPLES.map((text) => h("li", {}, h("button", { type: "button", onclick: () => on.ask(text) }, text)));
  return h("div", { class: "empty" }, h("h2", {}, "What would you like to know?"),
    h("p", {}, "The model runs on this server. Conversations stay in this browser."), h("ul", {}, ...examples));
}

function article(message) {
  const mine = message.role === "user";
  const body = h("div", { class: "body" });
  const thinking = h("details", { class: "thinking", hidden: true }, h("summary", {}, "Thinking"), h("div", { class: "body" }));
  const note = h("div", { class: "note", hidden: true });
  const actions = h("div", { class: "actions" });
  const stats = h("span", { class: "stats" });
  const node = h("article", { class: `message ${message.role}`, "data-id": message.id },
    h("h2", { class: "hidden" }, mine ? "You" : "Answer"), ...(mine ? [body] : [thinking, body, note]), actions);
  parts.set(message.id, { node, body, thinking, note, actions, stats });
  return node;
}

/** The buttons of a message. While an answer is being written the others' can only copy. */
function drawActions(chat, message, growing, on) {
  const part = parts.get(message.id);
  const mine = message.role === "user";
  const disabled = Boolean(growing);
  const failed = message.error && !message.text && !message.thinking; // then there is only the note
  part.retry = () => on.retry(message);
  part.actions.replaceChildren();
  if (message !== growing && !failed) {
    part.actions.append(...branches(chat, message, disabled, on),
      copyButton(mine ? "Copy this question" : "Copy this answer", () => message.text),
      mine ? iconButton("edit", "Edit this question", () => editMessage(message, on), { "data-action": "edit", disabled })
        : iconButton("again", "Answer again", () => on.again(message), { "data-action": "again", disabled }));
  }
  if (!mine) part.actions.append(part.stats);
}

function branches(chat, message, disabled, on) {
  const all = siblings(chat, message);
  if (all.length < 2) return [];
  const at = all.indexOf(message);
  const step = (name, label, to) => iconButton(name, label, () => on.branch(all[to], name),
    { disabled: disabled || !all[to], "data-action": name });
  return [h("span", { class: "branches" }, step("left", "Previous version", at - 1),
    h("span", {}, h("span", { class: "hidden" }, "Version "), `${at + 1}/${all.length}`), step("right", "Next version", at + 1))];
}

/** Brings what is shown of `message` up to date; `live` has {tokens, seconds, waited} while it is being written. */
export function updateMessage(message, growing, live) {
  const part = parts.get(message.id);
  if (!part) return; // in another conversation or branch
  const stay = follow;
  if (message.role === "user") {
    if (part.body.textContent !== message.text) part.body.textContent = message.text;
  } else {
    const { text, thinking } = splitThinking(message);
    renderMarkdown(part.body, text);
    renderMarkdown(part.thinking.lastChild, thinking);
    part.thinking.hidden = !thinking;
    part.thinking.classList.toggle("growing", growing && !text);
    part.node.classList.toggle("waiting", growing && !text && !thinking);
    part.node.setAttribute("aria-busy", growing);
    part.stats.textContent = growing ? liveText(live) : statsText(message.stats);
    showNote(part, message, growing);
  }
  if (stay) keepAtEnd();
}

/** Some servers send the reasoning apart, others inside the text. */
export function splitThinking(message) {
  const found = /^\s*<think>([\s\S]*?)(?:<\/think>\s*|$)/.exec(message.text);
  const thinking = (message.thinking ?? "") + (found?.[1].trim() ?? "");
  return { text: found ? message.text.slice(found[0].length) : message.text, thinking };
}

function showNote(part, message, growing) {
  const sentence = growing ? "" : message.error ?? noteOf(message);
  if (sentence === part.sentence) return; // an alert that is put there again would be read again
  part.sentence = sentence;
  part.note.replaceChildren();
  part.note.hidden = !sentence;
  part.note.classList.toggle("error", Boolean(message.error));
  if (!sentence) return;
  part.note.append(h("span", { role: message.error ? "alert" : null }, sentence));
  if (message.error) part.note.append(h("button", { type: "button", class: "plain-button", onclick: () => part.retry() }, icon("again"), "Try again"));
}

function noteOf(message) {
  if (message.finish === "length") return "The answer reached its longest length.";
  if (message.finish === "stopped") return "Stopped.";
  if (message.finish === undefined) return "Unfinished: this is what came.";
  return message.text || message.thinking ? "" : "The model had nothing to say.";
}

function liveText(live) {
  if (!live) return "";
  return live.tokens ? tokensText(live.tokens, live.seconds) : `Reading, ${Math.round(live.waited)} s`;
}

function statsText(stats) {
  return stats?.completion ? `${tokensText(stats.completion, stats.seconds)} · first after ${stats.first.toFixed(1)} s` : "";
}

/** So many tokens, the last of them `seconds` after the first. */
function tokensText(tokens, seconds) {
  const speed = seconds > 0 && tokens > 1 ? ` · ${((tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
  return `${tokens} ${tokens === 1 ? "token" : "tokens"}${speed}`;
}

/** Puts a field in the place of a question; sending it begins a branch. */
export function editMessage(message, on) {
  const { node, body } = parts.get(message.id);
  if (node.classList.contains("editing")) return;
  const field = h("textarea", { "aria-label": "Edit this question", rows: 1, oninput: () => fit(field) });
  const close = () => {
    form.replaceWith(body);
    node.classList.remove("editing");
    node.querySelector("[data-action=edit]").focus();
  };
  const form = h("form", {
    class: "edit",
    onsubmit: (event) => {
      event.preventDefault();
      if (field.value.trim()) on.edit(message, field.value.trim());
    },
    onkeydown: (event) => {
      if (event.key === "Escape") close();
      else if (entersText(event)) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
  }, field, h("div", { class: "buttons" }, h("button", { type: "button", class: "plain-button", onclick: close }, "Cancel"),
    h("button", { type: "submit", class: "main-button" }, "Send")));
  node.classList.add("editing");
  body.replaceWith(form);
  field.value = message.text;
  fit(field);
  field.focus();
}

/** Enter sends; not with Shift, and not while an input method composes a character. */
export const entersText = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing;

/** Makes a text field as high as its text; the style sheet says how high at most. */
export function fit(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + field.offsetHeight - field.clientHeight}px`;
}

/** Puts the focus on a button of a message, after the messages were drawn anew. */
export function focusAction(message, action) {
  const buttons = [...(parts.get(message.id)?.node.querySelectorAll("[data-action]") ?? [])].filter((button) => !button.disabled);
  (buttons.find((button) => button.dataset.action === action) ?? buttons[0])?.focus();
}

// The end of the conversation stays in view, unless the reader scrolled up.

export function watchScrolling() {
  const scroll = $("scroll");
  scroll.addEventListener("scroll", () => {
    follow = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;
    $("to-end").hidden = follow;
  });
  new ResizeObserver(() => follow && keepAtEnd()).observe(scroll);
  $("to-end").addEventListener("click", goToEnd);
}

export function goToEnd() {
  follow = true;
  keepAtEnd();
}

function keepAtEnd() {
  const scroll = $("scroll");
  scroll.scrollTop = scroll.scrollHeight;
}
