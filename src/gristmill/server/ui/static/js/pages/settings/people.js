// @ts-check
/** The users and groups of the organisation: lists, dialogs that create or edit one, and what can be done with each. */

import { api, fetchAll } from "../../api.js";
import { button, iconButton } from "../../components/button.js";
import { confirm, dialog } from "../../components/dialog.js";
import { fieldErrors, noErrors, selectField, textField } from "../../components/form.js";
import { icon } from "../../components/icon.js";
import { emptyState, errorBanner, relativeTime } from "../../components/status.js";
import { showError } from "../../components/toast.js";
import { each, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { resource } from "../../resource.js";

/** @import { Errors } from "../../components/form.js" */
/** @import { Signal } from "../../core.js" */
/** @import { Resource } from "../../resource.js" */
/**
 * @typedef {{id: string, name: string, email: string, role: string, active: boolean, source: string,
 *   hasPassword: boolean, signedInAt: string | null}} User
 * @typedef {{id: string, name: string, source: string, memberCount: number}} Group
 * @typedef {{id: string, type: "user" | "group", name: string, email: string | null}} Member
 */

export function peopleSection() {
  /** @type {Resource<User[]>} */
  const users = resource(() => fetchAll("/users"));
  /** @type {Resource<Group[]>} */
  const groups = resource(() => fetchAll("/groups"));
  const newUser = () => openUserDialog(null, () => users.refresh());
  const newGroup = () => openGroupDialog(() => groups.refresh());
  const userRows = each(
    () => users.value.value ?? [],
    (user) => `${user.id} ${user.name}`, // its buttons have the name
    (user) => userRow(user, users),
  );
  const groupRows = each(
    () => groups.value.value ?? [],
    (group) => group.id,
    (group) => groupRow(group, groups),
  );
  return html`
    ${() => errorBanner(users.error.value ?? groups.error.value)}
    <div class="section">
      <h2>${t("Users")}</h2>
      ${button(t("New user"), newUser, { icon: "plus", small: true })}
    </div>
    <div class="rows first" role="list" aria-label="${t("Users")}">${userRows}</div>
    ${() => listEnd(users.value.value, noUsers)}
    <div class="section">
      <h2>${t("Groups")}</h2>
      ${button(t("New group"), newGroup, { icon: "plus", small: true })}
    </div>
    <div class="rows" role="list" aria-label="${t("Groups")}">${groupRows}</div>
    ${() => listEnd(groups.value.value, noGroups)}
  `;
}

const SHOWN = 1000;

/** @param {unknown[] | null} list @param {() => Node} empty What is below a list: nothing, or why it ends. */
function listEnd(list, empty) {
  if (list?.length === 0) return empty();
  if ((list?.length ?? 0) < SHOWN) return null;
  return html`<p class="foot dim small-text">${t("The first {count} are shown.", { count: list?.length })}</p>`;
}

const noUsers = () =>
  emptyState(
    "key",
    t("No users yet"),
    t("Create one, let people sign in through your OpenID provider, or have them provisioned by SCIM."),
  );
const noGroups = () =>
  emptyState("key", t("No groups yet"), t("Create one, or let your OpenID provider or SCIM name them."));

/** @param {Signal<User>} user @param {Resource<User[]>} users */
function userRow(user, users) {
  const { id, name } = user.peek();
  const edit = () => openUserDialog(user.peek(), () => users.refresh());
  const setActive = (/** @type {boolean} */ active) => change(users, () => api.patch(`/users/${id}`, { active }));
  const remove = async () => {
    const isConfirmed = await confirm({
      title: t("Delete {name}?", { name }),
      text: t("Their sessions and keys end at once. What they added stays."),
      action: t("Delete"),
    });
    if (isConfirmed) await change(users, () => api.delete(`/users/${id}`));
  };
  const toggle = () =>
    user.value.active
      ? button(t("Deactivate"), () => setActive(false), { small: true })
      : button(t("Activate"), () => setActive(true), { small: true });
  const lastSignIn = () =>
    user.value.signedInAt ? html`${t("signed in")} ${relativeTime(() => user.value.signedInAt)}` : t("never signed in");
  return html`
    <div class="entry" role="listitem">
      ${icon("key")}
      <span class="grow two-line">
        <b class="cut">${() => user.value.name} <span class="chip">${() => t(user.value.role)}</span>
          ${() => (user.value.active ? null : html`<span class="chip">${t("not active")}</span>`)}</b>
        <span class="dim cut">${() => user.value.email}</span>
      </span>
      <span class="dim right small-text hide-phone">${lastSignIn}</span>
      ${button(t("Edit"), edit, { small: true, title: t("Edit {name}", { name }) })}
      ${toggle} ${iconButton(t("Delete {name}", { name }), "trash", remove)}
    </div>
  `;
}

/** @param {Signal<Group>} group @param {Resource<Group[]>} groups */
function groupRow(group, groups) {
  const { id, name } = group.peek();
  const remove = async () => {
    const isConfirmed = await confirm({
      title: t("Delete {name}?", { name }),
      text: t("Its members stay, and lose what they saw only through it."),
      action: t("Delete"),
    });
    if (isConfirmed) await change(groups, () => api.delete(`/groups/${id}`));
  };
  const openMembers = () => openMembersDialog(group.peek(), groups);
  return html`
    <div class="entry" role="listitem">
      ${icon("base")}
      <span class="grow two-line"><b class="cut">${() => group.value.name}</b>
        <span class="dim cut">${() => t("{n} members", { n: group.value.memberCount })}</span></span>
      ${button(t("Members"), openMembers, { small: true })}
      ${iconButton(t("Delete {name}", { name }), "trash", remove)}
    </div>
  `;
}

/** @param {Resource<any>} list @param {() => Promise<unknown>} request */
async function change(list, request) {
  await request().catch(showError);
  await list.refresh();
}

/** @param {User | null} existing @param {() => void} onsaved */
function openUserDialog(existing, onsaved) {
  const errors = noErrors();
  const title = existing ? t("Edit {name}", { name: existing.name }) : t("New user");
  const save = async (/** @type {FormData} */ data) => {
    const password = String(data.get("password"));
    const user = {
      email: String(data.get("email")).trim(),
      name: String(data.get("name")).trim() || undefined,
      role: data.get("role"),
      password: password || undefined,
    };
    // Only what was changed here: another admin may have changed the rest since the list was fetched.
    const changes = Object.entries(user).filter(([name, value]) => value !== /** @type {any} */ (existing)?.[name]);
    await (existing ? api.patch(`/users/${existing.id}`, Object.fromEntries(changes)) : api.post("/users", user));
    onsaved();
  };
  openForm(title, errors, () => userFields(existing, errors), save, existing ? t("Save") : t("Create"));
}

/** @param {User | null} existing */
function passwordHint(existing) {
  if (existing?.hasPassword) {
    return t("At least 10 characters. A new one signs them out. Leave it empty to keep the current one.");
  }
  return t("At least 10 characters. Without one they sign in at the OpenID provider.");
}

/** @param {User | null} existing @param {Errors} errors */
const userFields = (existing, errors) => [
  textField({
    label: t("Email address"),
    name: "email",
    type: "email",
    value: existing?.email,
    required: true,
    focus: true,
    error: () => errors.value.email,
  }),
  textField({ label: t("Name"), name: "name", value: existing?.name, error: () => errors.value.name }),
  selectField({
    label: t("Role"),
    name: "role",
    value: existing?.role ?? "reader",
    choices: [["reader", t("reader")], ["editor", t("editor")], ["admin", t("admin")]],
    hint: t("Readers can search, editors can also add and delete, admins can do everything."),
  }),
  textField({
    label: existing?.hasPassword ? t("New password") : t("Password"),
    name: "password",
    type: "password",
    hint: passwordHint(existing),
    error: () => errors.value.password,
  }),
];

/** @param {() => void} oncreated */
function openGroupDialog(oncreated) {
  const errors = noErrors();
  const fields = () =>
    textField({ label: t("Name"), name: "name", required: true, focus: true, error: () => errors.value.name });
  const create = async (/** @type {FormData} */ data) => {
    await api.post("/groups", { name: String(data.get("name")).trim() });
    oncreated();
  };
  openForm(t("New group"), errors, fields, create, t("Create"));
}

/**
 * @param {string} title @param {Errors} errors @param {() => Node | Node[]} fields
 * @param {(data: FormData) => Promise<void>} save @param {string} action
 */
function openForm(title, errors, fields, save, action) {
  const errorText = signal("");
  dialog(title, (close) => {
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        await save(new FormData(/** @type {HTMLFormElement} */ (event.target)));
        close();
      } catch (error) {
        errors.value = fieldErrors(error);
        errorText.value = Object.keys(errors.peek()).length ? "" : /** @type {Error} */ (error).message;
      }
    };
    return html`
      <form @submit=${submit}>
        <div class="dialog-body">
          ${fields()} ${() => (errorText.value ? html`<p class="error" role="alert">${errorText.value}</p>` : null)}
        </div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })}
          <button type="submit" class="button primary">${action}</button>
        </footer>
      </form>
    `;
  });
}

/**
 * The user with an address, or the group of a name. The server is asked: the page lists only the first of many.
 * @param {string} text in small letters
 */
async function findMember(text) {
  const user = (await fetchAll("/users", { q: text })).find((entry) => entry.email === text);
  if (user) return { userIds: [user.id], groupIds: [] };
  const child = (await fetchAll("/groups", { q: text })).find((entry) => entry.name.toLowerCase() === text);
  return child ? { userIds: [], groupIds: [child.id] } : null;
}

/** @param {Group} group @param {Resource<Group[]>} groups */
function openMembersDialog(group, groups) {
  const path = `/groups/${group.id}/members`;
  /** @type {Resource<Member[]>} */
  const members = resource(() => fetchAll(path));
  const errorText = signal("");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const text = String(new FormData(form).get("member")).trim().toLowerCase();
    errorText.value = "";
    try {
      const added = await findMember(text);
      if (!added) {
        errorText.value = t("There is no user with this address, and no group of this name.");
        return;
      }
      await api.post(path, added);
      form.reset();
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
    }
    await members.refresh();
    groups.refresh();
  };
  const removeMember = async (/** @type {Member} */ member) => {
    await change(members, () => api.delete(`${path}/${member.id}`));
    groups.refresh();
  };
  const row = (/** @type {Member} */ member) =>
    html`
      <li class="share">
        <span class="grow">${member.name} <span class="dim">${member.email ?? t("group")}</span></span>
        ${iconButton(t("Remove {name}", { name: member.name }), "close", () => removeMember(member))}
      </li>
    `;
  dialog(t("Members of {name}", { name: group.name }), (close) =>
    html`
      <form @submit=${submit}>
        <div class="dialog-body">
          <ul aria-label="${t("Members")}">${() => (members.value.value ?? []).map(row)}</ul>
          ${textField({
            label: t("Person or group"),
            name: "member",
            required: true,
            focus: true,
            error: () => errorText.value || undefined,
          })}
        </div>
        <footer>
          ${button(t("Close"), close, { kind: "quiet" })}
          <button type="submit" class="button primary">${t("Add")}</button>
        </footer>
      </form>
    `);
}
