// The list of conversations, and the folding of its column (a drawer on a phone).
import { $, h, iconButton } from "./dom.js";
import * as store from "./store.js";

const phone = matchMedia("(max-width: 48rem)");

/** Draws the list. `on` has rename(chat, title) and remove(chat); a conversation opens by its link. */
export function showChats(currentId, busyIds, on) {
  const rows = store.list().map((chat) => row(chat, chat.id === currentId, busyIds.includes(chat.id), on));
  $("chats").replaceChildren(...rows);
}

function row(chat, current, busy, on) {
  const name = chat.title || "Untitled";
  const item = h("li", { class: current ? "current" : null, "data-id": chat.id },
    h("a", { href: `#${chat.id}`, "aria-current": current ? "page" : null, title: name }, name,
      busy && h("span", { class: "busy" }, h("span", { class: "hidden" }, " (answering)"))),
    iconButton("edit", `Rename ${name}`, () => rename(item, chat, on)),
    iconButton("trash", `Delete ${name}`, () => on.remove(chat)));
  return item;
}

function rename(item, chat, on) {
  let open = true; // removing the field also takes its focus, which must not save once more
  const finish = (save) => {
    if (!open) return;
    open = false;
    const title = field.value.trim();
    on.rename(chat, save && title ? title : chat.title);
    document.querySelector(`#chats [data-id="${chat.id}"] button`)?.focus();
  };
  const field = h("input", {
    "aria-label": "Name of the conversation",
    maxlength: 100,
    onblur: () => finish(true),
    onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      finish(event.key === "Enter");
    },
  });
  field.value = chat.title;
  item.replaceChildren(field);
  field.select();
}

/** After `chat` is removed: the conversation that takes its place in the list, if any. */
export function neighbour(chat) {
  const all = store.list();
  const at = all.findIndex((other) => other.id === chat.id);
  return all[at + 1] ?? all[at - 1];
}

export function startSidebar() {
  $("open-sidebar").addEventListener("click", () => setSidebar(true));
  $("close-sidebar").addEventListener("click", () => setSidebar(false));
  $("backdrop").addEventListener("click", () => setSidebar(false));
  $("sidebar").addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !phone.matches) return;
    event.stopPropagation();
    setSidebar(false);
  });
  phone.addEventListener("change", place);
  place();
}

function place() {
  fold(!phone.matches && store.sidebarOpen());
}

/** Opens or closes the column and moves the focus with it. */
export function setSidebar(open) {
  if (!phone.matches) store.saveSidebar(open);
  fold(open);
  $(open ? "close-sidebar" : "open-sidebar").focus();
}

export const toggleSidebar = () => setSidebar($("sidebar").inert);

/** On a phone the drawer goes away when something in it was chosen. */
export function closeDrawer() {
  if (phone.matches) fold(false);
}

function fold(open) {
  document.body.classList.toggle("with-sidebar", open);
  $("sidebar").inert = !open;
  $("open-sidebar").hidden = open && !phone.matches;
  $("main").inert = open && phone.matches;
  $("backdrop").hidden = !(open && phone.matches);
}
