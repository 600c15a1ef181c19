// @ts-check
/**
 * Groups the events of a timeline, so that failures stand out: between two problems, routine events of one kind and
 * base become one entry; so do failures with the same error that follow each other. Pure functions.
 */

/**
 * @typedef {{id: string, type: string, baseId: string | null, subject: string | null, data: Record<string, any>,
 *   at: string}} Event
 */
/**
 * @typedef {{key: string, day: string, problems: number, isMore: boolean, events?: undefined}} DayEntry `isMore`: there
 *   may be more problems than those
 */
/** @typedef {{items: Event[], nextCursor: string | null}} ProblemPage the newest, also if not loaded otherwise */
/** @typedef {{key: string, events: Event[], day?: undefined}} EventEntry newest first; several are one group */

const MIN_GROUP = 3; // fewer are shown one by one
export const PROBLEMS = new Set(["ItemFailed", "BaseFailed", "Reconciled"]);
/** What each kind says of several. Other kinds are never grouped. @type {Record<string, string>} */
export const GROUP_DESCRIPTIONS = {
  DocumentUploadCompleted: "{n} documents were added",
  EmbeddedDocumentsExtracted: "{n} documents contain others",
  DocumentContentExtracted: "{n} documents were read",
  DocumentChunkingCompleted: "{n} documents were split into chunks",
  DocumentIndexingCompleted: "{n} documents are searchable",
  AllAssetsAnalyzed: "Images and tables of {n} documents were described",
  DocumentIngestionCompleted: "{n} documents were indexed",
  ItemFailed: "{n} items failed",
  ContainerAdded: "{n} folders and sources were added",
  ContainerExpanded: "{n} folders and sources were scanned",
  ItemsDeleted: "{n} deletions were requested",
  ItemsRemoved: "{n} deletions were completed",
  ItemsChanged: "{n} changes of items",
  ReindexAccepted: "{n} reindexes were requested",
  KnowledgeSpaceAllDocumentsIngested: "Everything was indexed, {n} times",
};

/** @param {Event} event */
export const isProblem = (event) => PROBLEMS.has(event.type);

/** @param {Event} event What the events of one group have in common. */
const kindOf = ({ type, baseId, data }) => `${type} ${baseId} ${type === "ItemFailed" ? data.code : ""}`;

/** @param {Event[]} events of one run @returns {EventEntry[]} */
function groupRun(events) {
  /** @type {Map<string, Event[]>} */ const kinds = new Map();
  for (const event of events) {
    const kind = GROUP_DESCRIPTIONS[event.type] ? kindOf(event) : event.id;
    kinds.set(kind, [...(kinds.get(kind) ?? []), event]);
  }
  const groups = [...kinds.values()].flatMap((group) => group.length < MIN_GROUP ? group.map((one) => [one]) : [group]);
  groups.sort(([a], [b]) => events.indexOf(a) - events.indexOf(b));
  // The oldest event names a group: it stays the same while newer ones join.
  return groups.map((group) => ({
    key: group.length > 1 ? `group ${group[group.length - 1].id}` : group[0].id,
    events: group,
  }));
}

/** @param {Event[]} problems some of them twice @param {(at: string) => string} dayOf */
function problemCounter(problems, dayOf) {
  /** @type {Map<string, Set<string>>} */ const ids = new Map();
  for (const { id, at } of problems) ids.set(dayOf(at), (ids.get(dayOf(at)) ?? new Set()).add(id));
  return (/** @type {string} */ day) => ids.get(day)?.size ?? 0;
}

/**
 * @param {Event[]} events newest first @param {(at: string) => string} dayOf the day of a time, as it is shown
 * @param {ProblemPage | null} [problemPage] counted too: the page may have loaded only the last minutes of a day
 * @returns {(DayEntry | EventEntry)[]}
 */
export function groupEvents(events, dayOf, problemPage = null) {
  /** @type {{day: string, runs: Event[][]}[]} */ const days = [];
  for (const event of events) {
    const day = dayOf(event.at);
    if (days.at(-1)?.day !== day) days.push({ day, runs: [] });
    const current = days[days.length - 1];
    const run = current.runs.at(-1);
    if (run && isProblem(run[0]) === isProblem(event)) run.push(event);
    else current.runs.push([event]);
  }
  const countDay = problemCounter([...events.filter(isProblem), ...(problemPage?.items ?? [])], dayOf);
  const oldest = problemPage?.nextCursor ? problemPage.items.at(-1) : undefined;
  const cutFrom = oldest ? days.findIndex(({ day }) => day === dayOf(oldest.at)) : -1;
  return days.flatMap(({ day, runs }, i) => [
    { key: day, day, problems: countDay(day), isMore: cutFrom >= 0 && i >= cutFrom },
    ...runs.flatMap(groupRun),
  ]);
}
