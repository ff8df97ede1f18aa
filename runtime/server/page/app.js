// What happens: sending, streaming, stopping, branches, keyboard. The views draw, the store keeps.
import { ApiError, isReady, servedModel, setKey, streamChat } from "./api.js";
import { append, dropEmpty, find, newChat, path, requestBody, showBranch, tokensUsed } from "./chat.js";
import { askDelete, askKey, askSettings, showHelp, startDialogs } from "./dialogs.js";
import { $, announce, h, icon } from "./dom.js";
import { editMessage, entersText, fit, focusAction, goToEnd, showMessages, splitThinking, updateMessage, watchScrolling }
  from "./messages.js";
import { closeDrawer, neighbour, showChats, startSidebar, toggleSidebar } from "./sidebar.js";
import * as store from "./store.js";

const SAVE_EVERY = 500; // milliseconds between two savings of a growing answer
const OTHER_TEMPERATURE = 0.7;
const READ_ALOUD = 400; // a longer answer is only announced; its text is there to be read

const answers = new Map(); // conversation id -> {chat, message, stop, live}: the answers being written
let chat = newChat(store.settings());
let model = { name: "", context: null, defaults: {} };

const on = {
  ask: (text) => send(text),
  edit: (message, text) => question(message.parent, text),
  again: (message) => answer(chat, message.parent, anotherAnswer()),
  retry: (message) => again(chat, message),
  branch(message, direction) {
    showBranch(chat, message);
    keep(chat);
    draw();
    focusAction(message, direction);
  },
  rename(renamed, title) {
    renamed.title = title;
    keep(renamed);
    drawAround();
  },
  async remove(removed) {
    if (!(await askDelete(removed.title))) return;
    const next = neighbour(removed);
    answers.get(removed.id)?.stop.abort();
    store.remove(removed.id);
    if (removed.id === chat.id) open(next ?? newChat(store.settings()));
    else drawAround();
    (document.querySelector(`#chats [data-id="${next?.id}"] a`) ?? $("new-chat")).focus();
    announce("Deleted.");
  },
};

// Drawing

function draw() {
  showMessages(chat, answers.get(chat.id)?.message, on);
  drawAround();
}

/** Everything but the messages. */
function drawAround() {
  const busy = answers.has(chat.id);
  const title = chat.title || "New chat";
  $("title").textContent = title;
  document.title = chat.title ? `${title} · Krafla` : "Krafla";
  $("model").textContent = model.name;
  $("send").replaceChildren(icon(busy ? "stop" : "send"));
  $("send").setAttribute("aria-label", busy ? "Stop" : "Send");
  $("send").title = busy ? "Stop (Esc)" : "Send (Enter)";
  $("send").disabled = !busy && !$("input").value.trim();
  drawContext();
  showChats(chat.id, [...answers.keys()], on);
}

function drawContext() {
  const used = tokensUsed(chat);
  $("context").hidden = !model.context;
  if (!model.context) return;
  $("context-text").textContent = `${used.toLocaleString("en")} / ${model.context.toLocaleString("en")}`;
  $("context").setAttribute("aria-valuemax", model.context);
  $("context").setAttribute("aria-valuenow", used);
  $("context").setAttribute("aria-valuetext", `${used} of ${model.context} tokens`);
  $("context").title = `${used} of the ${model.context} tokens that the model can look back at`;
  $("context").classList.toggle("full", used > 0.9 * model.context);
  $("context-bar").style.width = `${Math.min(100, (100 * used) / model.context)}%`;
}

/** Where there is a keyboard; on a phone the focus would bring up the one on the screen. */
function focusInput() {
  if (!matchMedia("(pointer: coarse)").matches) $("input").focus();
}

/** Shows one sentence at the top, with a button if there is something to do about it. */
function notice(sentence, retry) {
  if (sentence && $("notice").firstChild?.textContent === sentence) return; // said already
  $("notice").hidden = !sentence;
  $("notice").replaceChildren(h("span", {}, sentence));
  const press = () => {
    notice("");
    retry?.();
    focusInput();
  };
  if (sentence) $("notice").append(h("button", { type: "button", class: "plain-button", onclick: press }, retry ? "Try again" : "Close"));
}

function keep(kept) {
  if (!store.save(kept)) notice("The browser has no room left: export or delete conversations, or this one is lost on closing.");
}

// Asking and answering

function send(text) {
  if (answers.has(chat.id) || !text.trim()) return;
  $("input").value = "";
  fit($("input"));
  keepDraft();
  question(chat.leaf, text.trim());
}

function question(parent, text) {
  if (answers.has(chat.id)) return;
  const message = append(chat, parent, "user", text);
  if (location.hash.slice(1) !== chat.id) history.pushState(null, "", `#${chat.id}`);
  answer(chat, message.id);
}

/** Has the model answer the message `parent` of a conversation, as a new branch if it has an answer already. */
async function answer(owner, parent, changes = {}) {
  if (answers.has(owner.id)) return;
  const body = { ...requestBody(owner, parent, model.name || undefined), ...changes };
  const message = append(owner, parent, "assistant", "");
  const job = { chat: owner, message, stop: new AbortController(), live: { tokens: 0, seconds: 0, waited: 0 } };
  answers.set(owner.id, job);
  keep(owner);
  goToEnd();
  draw();
  focusInput();
  announce("Answering.");
  const refused = await write(job, body);
  answers.delete(owner.id);
  if (store.get(owner.id)) keep(owner); // unless it was deleted meanwhile
  if (owner.id === chat.id) drawKeepingFocus();
  else drawAround();
  sayFinished(owner, message);
  if (refused && (await enterKey())) again(owner, message);
}

/** What makes a second answer differ from the first where nobody chose a temperature: at 0 it would be the same. */
function anotherAnswer() {
  const greedy = chat.settings.temperature === undefined && model.defaults.temperature === 0;
  return greedy ? { temperature: OTHER_TEMPERATURE } : {};
}

/** Asks again after a failure; what came of the failed answer stays as a version of its own. */
function again(owner, message) {
  dropEmpty(owner, message);
  answer(owner, message.parent);
}

/** Streams into job.message; returns whether the server wants a key. */
async function write({ message, stop, live }, body) {
  const began = performance.now();
  const save = setInterval(saveAnswers, SAVE_EVERY);
  const clock = setInterval(() => {
    live.waited = (performance.now() - began) / 1000;
    if (!live.tokens) schedule();
  }, 1000);
  let first = began;
  try {
    for await (const { text, thinking, finish, usage } of streamChat(body, stop.signal)) {
      const now = performance.now();
      if (text) message.text += text;
      if (thinking) message.thinking = (message.thinking ?? "") + thinking;
      if (text || thinking) {
        if (!live.tokens++) first = now;
        live.seconds = (now - first) / 1000;
      }
      if (finish) message.finish = finish;
      if (usage) message.stats = statsOf(usage, first - began, now - first);
      schedule();
    }
    message.finish ??= "stop";
  } catch (error) {
    if (stop.signal.aborted) message.finish = "stopped";
    else if (!leaving) {
      message.finish = "error";
      message.error = error instanceof ApiError ? error.message : `The server's answer cannot be read (${error.message}).`;
      return error.status === 401;
    }
  } finally {
    clearInterval(save);
    clearInterval(clock);
  }
  return false;
}

function statsOf(usage, first, rest) {
  return { prompt: usage.prompt_tokens, completion: usage.completion_tokens, first: first / 1000, seconds: rest / 1000 };
}

let scheduled = false;

/** Draws the growing answer of this conversation once before the next frame, however many pieces come. */
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    const job = answers.get(chat.id);
    if (job) updateMessage(job.message, true, job.live);
  });
}

/** Draws all anew when an answer ends, without taking the focus from a button of a message. */
function drawKeepingFocus() {
  const active = document.activeElement;
  const id = active?.closest("article")?.dataset.id;
  draw();
  if (id && find(chat, id)) focusAction(find(chat, id), active.dataset.action);
}

function sayFinished(owner, message) {
  if (owner.id !== chat.id || message.error) return; // an error speaks for itself
  const { text } = splitThinking(message);
  if (message.finish === "stopped") announce("Stopped.");
  else announce(text.length <= READ_ALOUD ? text : `The answer is there: ${text.trim().split(/\s+/).length} words.`);
}

// A page that goes away loses its connections, which is not an error of the answer: it stays without an end.
let leaving = false;

function leave() {
  leaving = true;
  saveAnswers();
  setTimeout(() => (leaving = false), 3000); // unless it stays after all
}

function saveAnswers() {
  for (const job of answers.values()) if (store.get(job.chat.id)) store.save(job.chat);
}

function stopAnswer() {
  answers.get(chat.id)?.stop.abort();
  focusInput();
}

// Conversations

/** Shows a conversation and puts its id into the address, so that a reload comes back to it. */
function open(next) {
  const hash = store.get(next.id) ? `#${next.id}` : "";
  if (hash !== location.hash) history.pushState(null, "", hash || location.pathname + location.search);
  show(next);
}

function show(next) {
  chat = next;
  notice("");
  draw();
  goToEnd();
}

function showAddressed() {
  const addressed = store.get(location.hash.slice(1));
  if (addressed && addressed === chat) return;
  show(addressed ?? newChat(store.settings()));
  closeDrawer();
  focusInput();
}

function startNew() {
  open(newChat(store.settings()));
  closeDrawer();
  focusInput();
}

function step(by) {
  const all = store.list();
  const at = all.findIndex((other) => other.id === chat.id);
  const next = all[at < 0 ? 0 : at + by];
  if (next) open(next);
}

function download() {
  const url = URL.createObjectURL(new Blob([store.exportAll()], { type: "application/json" }));
  h("a", { href: url, download: `krafla-chats-${new Date().toISOString().slice(0, 10)}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function importFile() {
  const [file] = $("import-file").files;
  $("import-file").value = "";
  if (!file) return;
  try {
    const count = store.importAll(await file.text());
    drawAround();
    notice(count ? `Imported ${count} ${count === 1 ? "conversation" : "conversations"}.` : "All of these conversations are here already.");
  } catch (error) {
    notice(error.message);
  }
}

// The server

async function enterKey() {
  const entered = await askKey();
  if (!entered) return false;
  setKey(entered.key, entered.remember);
  connect();
  return true;
}

/** Asks which model is served; waits while it is loading. */
async function connect() {
  try {
    while (!(await isReady())) {
      notice("The model is loading; a question can be sent when it is there.");
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    model = await servedModel();
    notice("");
    drawAround();
  } catch (error) {
    if (error.status === 401) {
      if (!(await enterKey())) notice(error.message, enterKey);
    } else notice(error.message, connect);
  }
}

// Settings and keyboard

async function changeSettings() {
  const settings = await askSettings(chat.settings, model.defaults);
  drawTheme();
  if (!settings) return;
  chat.settings = settings;
  store.saveSettings(settings);
  if (store.get(chat.id)) keep(chat);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (store.theme() === "system" ? dark.matches : store.theme() === "dark");

function drawTheme() {
  const label = isDark() ? "Light colours" : "Dark colours";
  $("theme").replaceChildren(icon(isDark() ? "sun" : "moon"));
  $("theme").setAttribute("aria-label", label);
  $("theme").title = `${label} (Alt+D)`;
}

function switchTheme() {
  store.saveTheme(isDark() ? "light" : "dark");
  drawTheme();
}

const lastOf = (role) => path(chat).findLast((message) => message.role === role);

function editLast() {
  const message = lastOf("user");
  if (message && !answers.has(chat.id)) editMessage(message, on);
}

function answerAgain() {
  const message = lastOf("assistant");
  if (message) on.again(message);
}

// By the key's place (event.code), since Alt gives other characters on some keyboards.
const SHORTCUTS = [
  { keys: ["Enter"], does: "Send" },
  { keys: ["Shift", "Enter"], does: "Begin a new line" },
  { keys: ["Esc"], does: "Stop the answer; close a dialog or a field" },
  { keys: ["↑"], does: "In an empty field: edit the last question" },
  { keys: ["Alt", "N"], code: "KeyN", does: "New chat", run: startNew },
  { keys: ["Alt", "R"], code: "KeyR", does: "Answer again", run: answerAgain },
  { keys: ["Alt", "E"], code: "KeyE", does: "Edit the last question", run: editLast },
  { keys: ["Alt", "I"], code: "KeyI", does: "Go to the message field", run: focusInput },
  { keys: ["Alt", "J"], code: "KeyJ", does: "Next conversation", run: () => step(1) },
  { keys: ["Alt", "K"], code: "KeyK", does: "Previous conversation", run: () => step(-1) },
  { keys: ["Alt", "B"], code: "KeyB", does: "Show or hide the conversations", run: toggleSidebar },
  { keys: ["Alt", "S"], code: "KeyS", does: "Settings", run: changeSettings },
  { keys: ["Alt", "D"], code: "KeyD", does: "Light or dark colours", run: switchTheme },
  { keys: ["Alt", "H"], code: "KeyH", does: "This list", run: showHelp },
];

function onKey(event) {
  if (document.querySelector("dialog[open]") || event.isComposing) return;
  if (event.key === "Escape" && answers.has(chat.id)) {
    event.preventDefault();
    stopAnswer();
  } else if (event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    const shortcut = SHORTCUTS.find(({ code }) => code === event.code);
    if (!shortcut) return;
    event.preventDefault();
    shortcut.run();
  }
}

function onInputKey(event) {
  if (entersText(event)) {
    event.preventDefault();
    send(event.target.value);
  } else if (event.key === "ArrowUp" && !event.target.value) {
    event.preventDefault();
    editLast();
  }
}

// What is typed survives a reload.
const DRAFT = "krafla.draft";

function keepDraft() {
  try {
    sessionStorage.setItem(DRAFT, $("input").value);
  } catch {
    // Then it does not.
  }
}

function restoreDraft() {
  try {
    $("input").value = sessionStorage.getItem(DRAFT) ?? "";
  } catch {
    $("input").value = "";
  }
  fit($("input"));
}

function start() {
  const kept = store.load();
  startDialogs(SHORTCUTS);
  startSidebar();
  watchScrolling();
  drawTheme();
  dark.addEventListener("change", drawTheme);
  $("theme").addEventListener("click", switchTheme);
  $("new-chat").addEventListener("click", startNew);
  $("open-settings").addEventListener("click", changeSettings);
  $("open-help").addEventListener("click", showHelp);
  $("export").addEventListener("click", download);
  $("import").addEventListener("click", () => $("import-file").click());
  $("import-file").addEventListener("change", importFile);
  $("input").addEventListener("keydown", onInputKey);
  $("input").addEventListener("input", () => {
    fit($("input"));
    keepDraft();
    $("send").disabled = !answers.has(chat.id) && !$("input").value.trim();
  });
  $("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    if (answers.has(chat.id)) stopAnswer();
    else send($("input").value);
  });
  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", showAddressed);
  window.addEventListener("beforeunload", leave);
  window.addEventListener("pagehide", leave);
  window.addEventListener("storage", onOtherTab);
  restoreDraft();
  showAddressed();
  if (!kept) notice("This browser keeps nothing for this page: conversations are lost when it closes.");
  connect();
}

/** Another tab wrote or deleted a conversation. */
function onOtherTab(event) {
  const id = store.changedChat(event);
  if (!id || answers.has(id)) return;
  store.reload(id);
  if (id === chat.id) {
    chat = store.get(id) ?? chat;
    draw();
  } else drawAround();
}

start();
