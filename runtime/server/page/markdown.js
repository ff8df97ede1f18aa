// The Markdown that models write, as DOM nodes: headings, lists, quotes, code, tables, emphasis, links.
// Everything is made with createElement and text nodes, so nothing in a text can become markup of its own.
// HTML stays visible text, and an image becomes a link: the page loads nothing that a model names.
import { copyButton, h } from "./dom.js";

const MAX_DEPTH = 12; // of quotes, lists and emphasis in one another; what is deeper stays plain text
const MAX_LABEL = 1000; // characters of a link's label
const FENCE = /^\s*(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}(?:-[ -]*-[ -]*-|\*[ *]*\*[ *]*\*|_[ _]*_[ _]*_)\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)])(?:\s+|$)/;

const drawn = new WeakMap(); // container -> the sources of the blocks in it

/** Shows `text` in `container`. Blocks that did not change since the last call keep their nodes. */
export function renderMarkdown(container, text) {
  const blocks = parse(text.split(/\r?\n/).map(untab), 0);
  numberHeadings(blocks);
  const keys = blocks.map((block) => `${block.type}${block.level ?? ""}\n${block.source}`);
  const old = drawn.get(container) ?? [];
  let same = 0;
  while (same < keys.length && keys[same] === old[same]) same++;
  while (container.childNodes.length > same) container.lastChild.remove();
  container.append(...blocks.slice(same).map(draw));
  drawn.set(container, keys);
}

const untab = (line) => line.replace(/^\s+/, (space) => space.replaceAll("\t", "    "));

/** Headings of an answer begin below the page's own two levels, and no level is left out. */
function numberHeadings(blocks) {
  let last = 2;
  for (const block of blocks) {
    if (block.type === "heading") last = block.level = Math.min(block.level + 2, last + 1, 6);
  }
}

// Blocks. Each reader looks at lines[at] and returns [block, index of the line after it], or nothing.

function parse(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) {
      at++;
      continue;
    }
    const [block, next] = special(lines, at, depth) ?? paragraph(lines, at, depth);
    block.source = lines.slice(at, next).join("\n");
    blocks.push(block);
    at = next;
  }
  return blocks;
}

function special(lines, at, depth) {
  return fence(lines, at) ?? heading(lines, at) ?? rule(lines, at) ?? table(lines, at)
    ?? (depth < MAX_DEPTH ? quote(lines, at, depth) ?? list(lines, at, depth) : undefined);
}

function fence(lines, at) {
  const open = FENCE.exec(lines[at]);
  if (!open) return undefined;
  const indent = lines[at].search(/\S/);
  const ends = (line) => line.trim().startsWith(open[1]) && !line.trim().replaceAll(open[1][0], "");
  let end = at + 1;
  while (end < lines.length && !ends(lines[end])) end++;
  const text = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent, Math.max(line.search(/\S/), 0))));
  return [{ type: "code", language: open[2], text: text.join("\n") }, Math.min(end + 1, lines.length)];
}

function heading(lines, at) {
  const found = HEADING.exec(lines[at]);
  return found && [{ type: "heading", level: found[1].length, text: found[2] }, at + 1];
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? [{ type: "rule" }, at + 1] : undefined;
}

function table(lines, at) {
  if (!lines[at].includes("|") || !lines[at + 1]?.includes("-")) return undefined;
  const head = cells(lines[at]);
  const marks = cells(lines[at + 1]);
  if (marks.length !== head.length || !marks.every((mark) => /^:?-+:?$/.test(mark))) return undefined;
  const align = marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "right") : "left"));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end++;
  const rows = lines.slice(at + 2, end).map((line) => head.map((_, column) => cells(line)[column] ?? ""));
  return [{ type: "table", head, align, rows }, end];
}

function cells(line) {
  const bare = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return bare.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  if (end === at) return undefined;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [{ type: "quote", blocks: parse(inner, depth + 1) }, end];
}

/** A list. Models indent by 2, 3 or 4: a line belongs to an item if it is indented more than the item's marker. */
function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return undefined;
  const ordered = first[2] !== undefined;
  const indent = first[1].length;
  const items = [];
  let content = 0; // the column at which the item's own text begins
  let blank = false;
  let loose = false;
  for (; at < lines.length; at++) {
    const line = lines[at];
    if (!line.trim()) {
      blank = true;
      items.at(-1).push("");
      continue;
    }
    const own = line.search(/\S/);
    const item = ITEM.exec(line);
    if (own > indent + 1) items.at(-1).push(line.slice(Math.min(own, content)));
    else if (item && (item[2] !== undefined) === ordered && !RULE.test(line)) {
      loose ||= blank;
      content = item[0].length;
      items.push([line.slice(content)]);
    } else if (item || blank || special(lines, at, MAX_DEPTH)) break;
    else items.at(-1).push(line.trim());
    blank = false;
  }
  return [{ type: "list", start: first[2], loose, items: items.map((body) => parse(body, depth + 1)) }, at];
}

function paragraph(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !interrupts(lines, end, depth)) end++;
  return [{ type: "paragraph", text: lines.slice(at, end).join("\n").trim() }, end];
}

/** Whether a paragraph ends before this line: of numbered lists only one that begins with 1 counts. */
function interrupts(lines, at, depth) {
  const number = ITEM.exec(lines[at])?.[2];
  return (number === undefined || number === "1") && special(lines, at, depth) !== undefined;
}

function draw(block) {
  switch (block.type) {
    case "code":
      return drawCode(block);
    case "heading":
      return h(`h${block.level}`, {}, ...inline(block.text));
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", {}, ...block.blocks.map(draw));
    case "table":
      return drawTable(block);
    case "list":
      return drawList(block);
    default:
      return h("p", {}, ...inline(block.text));
  }
}

function drawCode({ language, text }) {
  return h("div", { class: "code" },
    h("div", { class: "code-head" }, h("span", {}, language), copyButton("Copy this code", () => text)),
    h("pre", { tabindex: "0", role: "group", "aria-label": language ? `Code, ${language}` : "Code" }, h("code", {}, text)));
}

function drawTable({ head, align, rows }) {
  const row = (tag, texts) => h("tr", {}, ...texts.map((text, column) =>
    h(tag, { class: align[column], scope: tag === "th" && "col" }, ...inline(text))));
  return h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
    h("table", {}, h("thead", {}, row("th", head)), h("tbody", {}, ...rows.map((texts) => row("td", texts)))));
}

function drawList({ start, loose, items }) {
  const paragraphs = (block) => (block.type === "paragraph" && !loose ? inline(block.text) : [draw(block)]);
  return h(start === undefined ? "ul" : "ol", { start: start !== undefined && start !== "1" && start },
    ...items.map((blocks) => h("li", {}, ...blocks.flatMap(paragraphs))));
}

// Inline text: a list of nodes.

function inline(text, depth = 0, inLink = false) {
  const nodes = [];
  const without = new Set(); // markers that have no end further on, so that each is looked for once
  let plain = "";
  const push = (node) => {
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(node);
  };
  for (let at = 0; at < text.length;) {
    const found = breakAt(text, at) ?? codeSpan(text, at) ?? (inLink ? undefined : link(text, at, depth))
      ?? (depth < MAX_DEPTH ? emphasis(text, at, depth, inLink, without) : undefined);
    if (found) {
      if (found.node.nodeName === "BR") plain = plain.trimEnd();
      push(found.node);
      at = found.end;
    } else if (text[at] === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else if ("`*_~".includes(text[at])) {
      const length = run(text, at);
      plain += text.slice(at, at + length);
      at += length;
    } else plain += text[at++];
  }
  if (plain) nodes.push(plain);
  return nodes;
}

/** The length of the run of equal characters at `at`. */
function run(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end++;
  return end - at;
}

function sticky(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function breakAt(text, at) {
  const found = "\n\\<".includes(text[at]) && sticky(/\\?\n|<br ?\/?>/iy, text, at);
  return found ? { node: h("br"), end: at + found[0].length } : undefined;
}

function codeSpan(text, at) {
  if (text[at] !== "`") return undefined;
  const length = run(text, at);
  const end = codeEnd(text, at, length);
  if (end < 0) return undefined;
  const inner = text.slice(at + length, end - length).replaceAll("\n", " ");
  return { node: h("code", {}, /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner), end };
}

/** Where the code span ends that begins with `length` backticks, or -1. */
function codeEnd(text, at, length) {
  const ticks = "`".repeat(length);
  for (let end = text.indexOf(ticks, at + length); end >= 0; end = text.indexOf(ticks, end)) {
    const other = run(text, end);
    if (other === length) return end + length;
    end += other;
  }
  return -1;
}

function link(text, at, depth) {
  if (text[at] === "<" || text[at] === "h") return bareLink(text, at);
  const open = text[at] === "!" ? at + 1 : at;
  if (text[open] !== "[") return undefined;
  const close = bracketEnd(text, open);
  const target = close > 0 && sticky(/\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))*)>?(?:\s+"[^"]*")?\s*\)/y, text, close + 1);
  if (!target) return undefined;
  const label = text.slice(open + 1, close);
  return { node: anchor(target[1], inline(label || target[1], depth + 1, true)), end: close + 1 + target[0].length };
}

function bracketEnd(text, open) {
  let depth = 0;
  for (let at = open; at < Math.min(text.length, open + MAX_LABEL); at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "[") depth++;
    else if (text[at] === "]" && --depth === 0) return at;
  }
  return -1;
}

function bareLink(text, at) {
  const angle = sticky(/<((?:https?:\/\/|mailto:)[^\s<>]+)>/y, text, at);
  if (angle) return { node: anchor(angle[1], [angle[1]]), end: at + angle[0].length };
  if (/\w/.test(text[at - 1] ?? " ")) return undefined;
  const found = sticky(/https?:\/\/[^\s<>"`*]+/y, text, at);
  if (!found) return undefined;
  let url = found[0].replace(/[.,;:!?'_~\]]+$/, "");
  if (url.endsWith(")") && !url.includes("(")) url = url.slice(0, -1);
  return { node: anchor(url, [url]), end: at + url.length };
}

/** A link to the web or to a mail address; any other target gives the label alone. */
function anchor(target, label) {
  const scheme = URL.canParse(target) ? new URL(target).protocol : "";
  if (!["http:", "https:", "mailto:"].includes(scheme)) return h("span", {}, ...label);
  return h("a", { href: target, target: "_blank", rel: "noopener noreferrer" }, ...label);
}

const TAGS = { "*": ["em"], _: ["em"], "**": ["strong"], __: ["strong"], "***": ["em", "strong"], "~~": ["del"] };

function emphasis(text, at, depth, inLink, without) {
  if (!"*_~".includes(text[at]) || (text[at] === "_" && /\w/.test(text[at - 1] ?? " "))) return undefined;
  const length = run(text, at);
  const marker = text[at].repeat(length);
  for (const tried of length === 3 ? [marker, text[at], text[at].repeat(2)] : [marker]) {
    const start = at + tried.length;
    if (!TAGS[tried] || without.has(tried) || /\s/.test(text[start] ?? " ")) continue;
    const end = emphasisEnd(text, start, tried);
    if (end < 0) {
      without.add(tried);
      continue;
    }
    const inner = inline(text.slice(start, end), depth + 1, inLink);
    const nodes = TAGS[tried].reduceRight((children, tag) => [h(tag, {}, ...children)], inner);
    return { node: nodes[0], end: end + tried.length };
  }
  return undefined;
}

/** Where the marker is that ends the emphasis whose text begins at `start`, or -1. */
function emphasisEnd(text, start, marker) {
  for (let at = start; at < text.length;) {
    const char = text[at];
    if (char === "\\") at += 2;
    else if (char === "`") {
      const length = run(text, at);
      const end = codeEnd(text, at, length);
      at = end < 0 ? at + length : end;
    } else if (char === marker[0]) {
      const length = run(text, at);
      const fits = length === marker.length || (length >= 3 && length > marker.length);
      const after = text[at + length] ?? " ";
      const closes = at > start && !/\s/.test(text[at - 1]) && !(char === "_" && /\w/.test(after));
      if (fits && closes) return at + length - marker.length; // of a longer run the first part belongs inside
      at += length;
    } else at++;
  }
  return -1;
}
