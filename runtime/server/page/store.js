// What the browser keeps: one entry per conversation, so that a growing answer rewrites only its own.
import { cleanChat, cleanSettings } from "./chat.js";

const CHAT = "krafla.chat.";
const FORMAT = "krafla-chats";

const chats = new Map();

/** Reads all conversations. Returns whether the browser keeps anything for this page. */
export function load() {
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(CHAT)) reload(key.slice(CHAT.length));
    return true;
  } catch {
    return false;
  }
}

/** Reads one conversation again, after another tab wrote or deleted it. */
export function reload(id) {
  const chat = parseChat(localStorage.getItem(CHAT + id));
  if (chat) chats.set(id, chat);
  else chats.delete(id);
}

/** The id of the conversation that a storage event is about, or null. */
export const changedChat = (event) => (event.key?.startsWith(CHAT) ? event.key.slice(CHAT.length) : null);

function parseChat(json) {
  try {
    return cleanChat(JSON.parse(json));
  } catch {
    return null;
  }
}

/** The conversations, newest first. */
export const list = () => [...chats.values()].sort((a, b) => b.updated - a.updated);

export const get = (id) => chats.get(id);

/** Keeps a conversation. Returns false when the browser has no room for it; it then lives until the page closes. */
export function save(chat) {
  chats.set(chat.id, chat);
  return write(CHAT + chat.id, JSON.stringify(chat));
}

export function remove(id) {
  chats.delete(id);
  write(CHAT + id, null);
}

function write(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
    return true;
  } catch {
    return false;
  }
}

function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** The settings of new conversations. */
export function settings() {
  try {
    return cleanSettings(JSON.parse(read("krafla.settings")));
  } catch {
    return {};
  }
}

export const saveSettings = (value) => write("krafla.settings", JSON.stringify(value));

export const sidebarOpen = () => read("krafla.sidebar") !== "closed";

export const saveSidebar = (open) => write("krafla.sidebar", open ? "open" : "closed");

/** "light", "dark", or "system". */
export const theme = () => read("krafla.theme") ?? "system";

export function saveTheme(name) {
  write("krafla.theme", name === "system" ? null : name);
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

/** All conversations as the text of a file. */
export const exportAll = () => JSON.stringify({ format: FORMAT, version: 1, chats: list() }, null, 1);

/** Adds the conversations of an exported file. Returns how many were new; throws an Error with one sentence. */
export function importAll(text) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON.");
  }
  if (data?.format !== FORMAT || !Array.isArray(data.chats)) throw new Error("This file holds no Krafla conversations.");
  if (data.version !== 1) throw new Error(`This file has version ${data.version}; this page reads version 1.`);
  const found = data.chats.map(cleanOrNull);
  const broken = found.indexOf(null);
  if (broken >= 0) throw new Error(`Conversation ${broken + 1} of this file is damaged; nothing was imported.`);
  const fresh = found.filter((chat) => JSON.stringify(cleanOrNull(chats.get(chat.id))) !== JSON.stringify(chat));
  for (const chat of fresh) {
    if (chats.has(chat.id)) chat.id = `${chat.id.slice(0, 40)}_${Date.now()}`; // both versions are kept
    if (!save(chat)) throw new Error("The browser has no room for all of these conversations.");
  }
  return fresh.length;
}

function cleanOrNull(data) {
  try {
    return cleanChat(data);
  } catch {
    return null;
  }
}
