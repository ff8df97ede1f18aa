// What the page asks of the server. Every failure is an ApiError whose message is one sentence for the reader.

const KEY = "krafla.key";

export class ApiError extends Error {
  /** `status` is the HTTP status, or 0 when no answer came; `code` is the server's name for what happened. */
  constructor(message, status = 0, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function setKey(key, remember) {
  forgetKey();
  try {
    (remember ? localStorage : sessionStorage).setItem(KEY, key);
  } catch {
    memoryKey = key;
  }
}

function forgetKey() {
  memoryKey = "";
  for (const storage of ["localStorage", "sessionStorage"]) {
    try {
      window[storage].removeItem(KEY);
    } catch {
      // The browser keeps nothing for this page, so there is nothing to forget.
    }
  }
}

let memoryKey = "";

function key() {
  try {
    return memoryKey || sessionStorage.getItem(KEY) || localStorage.getItem(KEY);
  } catch {
    return memoryKey;
  }
}

async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (key()) headers.Authorization = `Bearer ${key()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" }); // relative: works behind a proxy's prefix
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached; is krafla serve still running?");
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  const body = await response.json().catch(() => ({}));
  const said = body?.error?.message;
  const wait = response.headers.get("Retry-After");
  const status = response.status;
  const code = body?.error?.code;
  if (status === 401) return new ApiError("The server asks for an API key.", status);
  if (status === 429) return new ApiError(`The server is busy; try again ${later(wait)}.`, status);
  if (status === 503 && code !== "failed") return new ApiError(`The server is not ready; try again ${later(wait)}.`, status);
  return new ApiError(said ? sentence(said) : `The server answered with status ${status}.`, status, code);
}

function later(wait) {
  const seconds = Number(wait);
  if (!(seconds > 0)) return "in a moment";
  return seconds === 1 ? "in one second" : `in ${seconds} seconds`;
}

function sentence(text) {
  const line = text.trim().replaceAll(/\s+/g, " ");
  return line[0].toUpperCase() + line.slice(1) + (/[.!?]$/.test(line) ? "" : ".");
}

/**
 * The model that is served: its name, how many tokens fit in its context (null if the server does not say),
 * and the settings of requests that say nothing, by name.
 */
export async function servedModel() {
  const { data } = await (await request("v1/models")).json();
  const props = await (await request("props")).json().catch(() => ({}));
  const defaults = props.default_generation_settings?.params ?? {};
  return { name: data?.[0]?.id ?? "model", context: data?.[0]?.meta?.n_ctx ?? null, defaults };
}

/** True once the model is loaded, false while it still loads. */
export async function isReady() {
  try {
    await request("health");
    return true;
  } catch (error) {
    if (error.status === 503 && error.code !== "failed") return false;
    throw error;
  }
}

/**
 * Streams an answer: yields {text}, {thinking}, {finish} and {usage} as they come.
 * Throws an ApiError, or the AbortError of `signal`.
 */
export async function* streamChat(body, signal) {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(sentence(chunk.error.message || "The server failed"), response.status);
    const choice = chunk.choices?.[0];
    if (choice?.delta?.reasoning_content) yield { thinking: choice.delta.reasoning_content };
    if (choice?.delta?.content) yield { text: choice.delta.content };
    if (choice?.finish_reason) yield { finish: choice.finish_reason };
    if (chunk.usage) yield { usage: chunk.usage };
  }
  throw new ApiError("The connection was lost in the middle of the answer.");
}

/** The data of each server-sent event; comments (keep-alive) and other fields are passed over. */
async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The connection was lost in the middle of the answer.");
  } finally {
    reader.cancel().catch(() => {}); // also when the caller stops early: the server then stops too
  }
}
