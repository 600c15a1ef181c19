// @ts-check
/**
 * An answer to the question of a search, written by the chat model while one looks on, with the passages that it cites.
 * It can be stopped. An answer is kept while the tab is open, so that coming back from a passage asks nothing again.
 */

import "../find-locale.js";
import { postForStream } from "../api.js";
import { capabilities } from "../capabilities.js";
import { effect, html, signal } from "../core.js";
import { errorMessage, t } from "../i18n.js";
import { button } from "../components/button.js";
import { icon, itemIcon } from "../components/icon.js";
import { safeNodes } from "../pages/reader/safe-html.js";
import { readable } from "../readable.js";
import { allows } from "../session.js";
import { SseParser } from "../stream.js";
import { skippedSentence } from "./skipped.js";

/** @import { ApiError } from "../api.js" */
/** @import { Signal } from "../core.js" */
/** @import { Hit } from "../pages/base/hits.js" */
/** @import { SkippedSearch } from "./run.js" */
/** @typedef {{number: number, hit: Hit}} Passage */
/**
 * @typedef {{phase: "reading" | "writing" | "done" | "stopped" | "failed", text: string, html: string,
 *   passages: Passage[], skipped: SkippedSearch[], cited: number[], isAnswered: boolean, message: string}} Answer
 */
/**
 * @typedef {{request: () => Record<string, any>, toUrl: (hit: Hit) => string, place?: (hit: Hit) => string}}
 *   AnswerOptions `place` is the base of a source, where several are searched
 */

const MAX_KEPT = 20;
const EXCERPT = 220; // characters
/** @type {Map<string, Answer>} */ const finished = new Map();
/** @type {Answer} */
const nothingYet = {
  phase: "reading",
  text: "",
  html: "",
  passages: [],
  skipped: [],
  cited: [],
  isAnswered: true,
  message: "",
};

/** @param {string} key @param {Answer} answer */
function keep(key, answer) {
  finished.set(key, answer);
  if (finished.size > MAX_KEPT) finished.delete(/** @type {string} */ (finished.keys().next().value));
}

/** @param {string} text @returns {number[]} the numbers that a text cites, each once, in their order */
const citedIn = (text) => [...new Set([...text.matchAll(/\[(\d+)\]/g)].map((match) => Number(match[1])))];

/** @param {Signal<Answer>} answer @param {string} name @param {any} data */
function receive(answer, name, data) {
  const now = answer.peek();
  if (name === "retrieved") {
    answer.value = { ...now, phase: "writing", passages: data.retrieved, skipped: data.skipped };
  } else if (name === "text") answer.value = { ...now, text: now.text + data.text };
  else if (name === "error") answer.value = { ...now, phase: "failed", message: errorMessage(data.code, data.detail) };
  else if (name === "end") {
    const cited = data.citations.map((/** @type {{number: number}} */ citation) => citation.number);
    answer.value = {
      ...now,
      phase: "done",
      text: data.answer,
      html: data.answerHtml,
      isAnswered: data.answered,
      cited,
    };
  }
}

/** @param {AnswerOptions} options */
export function answerView(options) {
  const body = { ...options.request(), stream: true };
  const key = JSON.stringify(body);
  const answer = signal(finished.get(key) ?? nothingYet);
  let abort = new AbortController();
  const ask = async () => {
    abort = new AbortController();
    answer.value = nothingYet;
    const parser = new SseParser((name, data) => receive(answer, name, JSON.parse(data)));
    const { signal: aborted } = abort;
    try {
      await postForStream("/ask", body, (text) => parser.push(text), aborted);
      const now = answer.peek();
      if (now.phase === "done") keep(key, now);
      else if (now.phase !== "failed") answer.value = { ...now, phase: "failed", message: t("The answer broke off.") };
    } catch (error) {
      if (aborted.aborted) return;
      answer.value = { ...answer.peek(), phase: "failed", message: /** @type {ApiError} */ (error).message };
    }
  };
  const stop = () => {
    abort.abort();
    answer.value = { ...answer.peek(), phase: "stopped" };
  };
  effect(
    () => capabilities.value?.chatModel ?? null,
    (model) => {
      if (model === null) return;
      if (!finished.has(key)) ask();
      return () => abort.abort();
    },
  );
  const again = () => {
    finished.delete(key);
    ask();
  };
  const content = () => {
    if (capabilities.value && capabilities.value.chatModel === null) return noModel();
    return answerBody(answer, options, stop, again);
  };
  const isBusy = () => String(["reading", "writing"].includes(answer.value.phase));
  return html`<section class="answer" aria-label="${t("Answer")}" aria-busy="${isBusy}">${content}</section>`;
}

function noModel() {
  const text = allows("operator")
    ? t("Set chat_url and chat_model in the server's settings to get answers. Searching works without them.")
    : t("This server has no chat model, so it can't answer questions. Searching works without one.");
  return html`<div class="answer-note">${icon("ask")}<div><b>${t("No answers here yet")}</b><p>${text}</p></div></div>`;
}

/** @param {Signal<Answer>} answer @param {AnswerOptions} options @param {() => void} stop @param {() => void} again */
function answerBody(answer, options, stop, again) {
  const status = () => {
    const { phase } = answer.value;
    if (phase === "reading") return t("Looking for passages …");
    if (phase === "writing") return t("Writing …");
    if (phase === "stopped") return t("Stopped");
    return phase === "failed" ? t("No answer") : t("Answer");
  };
  const isRunning = () => answer.value.phase === "reading" || answer.value.phase === "writing";
  const tool = () =>
    isRunning()
      ? button(t("Stop"), stop, { icon: "stop", small: true })
      : button(t("Ask again"), again, { icon: "retry", small: true, kind: "quiet" });
  return html`
    <header><span role="status">${icon("ask")}${status}</span>${tool}</header>
    ${() => answerText(answer.value, options)}
    ${() => answer.value.skipped.map((skipped) => html`<p class="dim small-text">${skippedSentence(skipped)}</p>`)}
    ${() => passageList(answer.value, options)}
  `;
}

/** @param {Answer} answer @param {AnswerOptions} options */
function answerText(answer, options) {
  const { phase, text, html: markup, passages, isAnswered, message } = answer;
  if (phase === "failed") {
    const begun = text ? html`<p class="answer-text">${withCitations(plainText(text), passages, options)} …</p>` : null;
    return html`${begun}<p class="answer-text">${message}</p>`;
  }
  if (phase === "done" && !isAnswered) {
    const reason = passages.length
      ? t("None of the passages that were found answers this.")
      : t("Nothing that you can see fits this question.");
    return html`<p class="answer-text dim">${reason} ${t("Try other words, or fewer filters.")}</p>`;
  }
  if (markup) return renderedAnswer(markup, passages, options);
  const caret = phase === "writing" ? html`<i class="caret"></i>` : null;
  return html`<p class="answer-text">${withCitations(plainText(text), passages, options)}${caret}</p>`;
}

/** @param {string} text Without the commonest markup, while it is not complete. */
const plainText = (text) =>
  text.replace(/\*\*([^*\n]+)\*\*/g, "$1").replace(/^#{1,6}\s+/gm, "").replace(/`([^`\n]+)`/g, "$1");

/** @param {string} text @param {Passage[]} passages @param {AnswerOptions} options @returns {(string | Node)[]} */
function withCitations(text, passages, options) {
  return text.split(/(\[\d+\])/).map((part) => {
    const number = Number(/^\[(\d+)\]$/.exec(part)?.[1]);
    const passage = passages.find((candidate) => candidate.number === number);
    return passage ? citation(passage, options) : part;
  });
}

/**
 * The whole answer with its lists, tables and code. What a model writes can come from anyone's document: its addresses
 * are shown, and are no links. Headings would stand in the outline of our own page.
 * @param {string} markup @param {Passage[]} passages @param {AnswerOptions} options
 */
function renderedAnswer(markup, passages, options) {
  const nodes = safeNodes(markup);
  for (const link of nodes.querySelectorAll("a")) {
    const [text, address] = [link.textContent ?? "", link.getAttribute("href") ?? ""];
    link.replaceWith(...link.childNodes, address && address !== text ? ` (${address})` : "");
  }
  for (const heading of nodes.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const paragraph = document.createElement("p");
    paragraph.className = "answer-title";
    paragraph.append(...heading.childNodes);
    heading.replaceWith(paragraph);
  }
  for (const code of nodes.querySelectorAll("pre")) code.tabIndex = 0; // it may be scrolled
  const walker = document.createTreeWalker(nodes, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */ const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  for (const text of texts) {
    if (!text.parentElement?.closest("code, pre")) text.replaceWith(...withCitations(text.data, passages, options));
  }
  return html`<div class="answer-text rendered">${nodes}</div>`;
}

/** @param {Passage} passage @param {AnswerOptions} options */
function citation({ number, hit }, options) {
  const label = t("Passage {number}: {title}", { number, title: hit.title });
  return html`<a class="cite" href="${options.toUrl(hit)}" aria-label="${label}" title="${hit.title}">${number}</a>`;
}

/** @param {Answer} answer @param {AnswerOptions} options */
function passageList({ phase, text, passages, cited, isAnswered }, options) {
  if (!passages.length || phase === "reading") return null;
  const numbers = new Set(phase === "done" ? cited : citedIn(text));
  const row = (/** @type {Passage} */ { number, hit }) =>
    html`
      <li>
        <a href="${options.toUrl(hit)}">
          <span class="cite" aria-hidden="true">${number}</span>
          <span class="passage">
            <span class="passage-head">${itemIcon(hit.type)}<b class="cut">${hit.title}</b>${pageOf(hit)}${placeOf(
              hit,
              options,
            )}</span>
            <span class="dim small-text">${excerptOf(hit)}</span>
          </span>
        </a>
      </li>
    `;
  const sources = passages.filter((passage) => numbers.has(passage.number));
  const others = passages.filter((passage) => !numbers.has(passage.number));
  const isOpen = !isAnswered || (phase === "done" && !sources.length);
  const otherList = () =>
    html`
      <details ?open=${isOpen}>
        <summary>${sources.length
          ? t("{n} other passages that the model read", { n: others.length })
          : t("{n} passages that the model read", { n: others.length })}</summary>
        <ol class="passages">${others.map(row)}</ol>
      </details>
    `;
  return html`
    ${sources.length ? html`<ol class="passages" aria-label="${t("Sources")}">${sources.map(row)}</ol>` : null}
    ${others.length ? otherList() : null}
  `;
}

/** @param {Hit} hit */
const pageOf = (hit) =>
  hit.source.page === null ? null : html`<span class="dim">${t("page {page}", { page: hit.source.page })}</span>`;

/** @param {Hit} hit @param {AnswerOptions} options */
const placeOf = (hit, { place }) => (place ? html`<span class="dim cut">${place(hit)}</span>` : null);

/** @param {Hit} hit */
function excerptOf(hit) {
  const text = readable(hit.text, []).text.replace(/\s+/g, " ").trim();
  return text.length > EXCERPT ? `${[...text].slice(0, EXCERPT).join("")} …` : text;
}
