// A conversation is a tree of messages: editing or regenerating adds a sibling and loses nothing.
// `leaf` is the message that the branch being shown ends with.
//
// chat:    {id, title, updated, leaf, settings, messages: [message]}, parents before their children
// message: {id, parent, role, text, thinking?, finish?, error?, stats?}
//          finish: stop, length, stopped (by the user) or error; missing while the answer is being written

export const LIMITS = {
  temperature: { min: 0, max: 2, step: 0.05, hint: "0 always takes the likeliest word; higher is more varied." },
  top_p: { min: 0.01, max: 1, step: 0.01, hint: "Only the likeliest words that together have this share." },
  top_k: { min: 0, max: 1000, step: 1, hint: "Only this many of the likeliest words; 0 is no limit." },
  min_p: { min: 0, max: 1, step: 0.01, hint: "Only words at least this likely, relative to the likeliest." },
  max_tokens: { min: 1, max: 1000000, step: 1, hint: "How long an answer may get." },
  seed: { min: 0, max: 4294967295, step: 1, hint: "The same seed and question give the same answer." },
};

const id = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export function newChat(settings) {
  return { id: id(), title: "", updated: Date.now(), leaf: null, settings: { ...settings }, messages: [] };
}

export function find(chat, messageId) {
  return chat.messages.find((message) => message.id === messageId);
}

/** The messages from the first one to the leaf. */
export function path(chat, leaf = chat.leaf) {
  const messages = [];
  for (let message = find(chat, leaf); message; message = find(chat, message.parent)) messages.unshift(message);
  return messages;
}

export function siblings(chat, message) {
  return chat.messages.filter((other) => other.parent === message.parent && other.role === message.role);
}

/** Adds a message below `parent` (an id, or null) and makes it the leaf. */
export function append(chat, parent, role, text) {
  const message = { id: id(), parent, role, text };
  chat.messages.push(message);
  chat.leaf = message.id;
  chat.updated = Date.now();
  if (!chat.title && role === "user") chat.title = titleOf(text);
  return message;
}

function titleOf(text) {
  const line = text.trim().split(/\s+/).join(" ");
  return line.length <= 60 ? line : `${line.slice(0, 60).replace(/\s\S*$/, "")}…`;
}

/** Shows the branch of `message`: its newest descendants. */
export function showBranch(chat, message) {
  let leaf = message;
  for (let next = message; next; next = chat.messages.findLast((other) => other.parent === leaf.id)) leaf = next;
  chat.leaf = leaf.id;
}

/** Takes out an answer in which nothing came. */
export function dropEmpty(chat, message) {
  if (message.text || message.thinking) return;
  chat.messages = chat.messages.filter((other) => other !== message);
  chat.leaf = message.parent;
}

/** The body of a chat request for the answer to the message `leaf`. */
export function requestBody(chat, leaf, model) {
  const { system, ...numbers } = chat.settings;
  const messages = system ? [{ role: "system", content: system }] : [];
  for (const { role, text } of path(chat, leaf)) {
    const last = messages.at(-1);
    if (role === "assistant" && !text) continue;
    // After an answer that never came there are two questions in a row, which many templates refuse.
    if (last?.role === role) last.content += `\n\n${text}`;
    else messages.push({ role, content: text });
  }
  return { model, messages, ...numbers };
}

/** How many tokens the branch held when its last answer was finished. */
export function tokensUsed(chat) {
  const last = path(chat).findLast((message) => message.stats);
  return last ? last.stats.prompt + last.stats.completion : 0;
}

/** Settings with only known names and values in their limits; what is missing is left to the server. */
export function cleanSettings(settings) {
  const clean = {};
  for (const [name, { min, max, step }] of Object.entries(LIMITS)) {
    const value = settings?.[name];
    const whole = step < 1 || Number.isInteger(value);
    if (typeof value === "number" && value >= min && value <= max && whole) clean[name] = value;
  }
  if (typeof settings?.system === "string" && settings.system.trim()) clean.system = settings.system;
  return clean;
}

/** A chat made of the known fields of `data`, or null if it is not one. */
export function cleanChat(data) {
  const text = (value) => typeof value === "string";
  if (!text(data?.id) || !/^\w{1,64}$/.test(data.id) || !text(data.title) || !Array.isArray(data.messages)) return null;
  const messages = [];
  const known = new Set([null]);
  for (const { id: own, parent, role, text: words, thinking, finish, error, stats } of data.messages) {
    if (!text(own) || known.has(own) || !known.has(parent)) return null;
    if (!text(words) || !["user", "assistant"].includes(role)) return null;
    known.add(own);
    const message = { id: own, parent, role, text: words };
    if (text(thinking)) message.thinking = thinking;
    if (text(finish)) message.finish = finish;
    if (text(error)) message.error = error;
    if (stats) message.stats = cleanStats(stats);
    messages.push(message);
  }
  if (!known.has(data.leaf)) return null;
  const updated = Number.isFinite(data.updated) ? data.updated : Date.now();
  return { id: data.id, title: data.title, updated, leaf: data.leaf, settings: cleanSettings(data.settings), messages };
}

function cleanStats(stats) {
  const number = (value) => (Number.isFinite(value) && value >= 0 ? value : 0);
  const { prompt, completion, first, seconds } = stats;
  return { prompt: number(prompt), completion: number(completion), first: number(first), seconds: number(seconds) };
}
