// @ts-check
/**
 * Groups the events of a timeline, so that failures stand out: between two problems, routine events of one kind and
 * base become one entry; so do failures with the same error that follow each other. Pure functions.
 */

/**
 * @typedef {{id: string, type: string, baseId: string | null, subject: string | null, data: Record<string, any>,
 *   at: string}} Event
 */
/** @typedef {{key: string, day: string, problems: number, events?: undefined}} DayEntry */
/** @typedef {{key: string, events: Event[], day?: undefined}} EventEntry newest first; several are one group */

const MIN_GROUP = 3; // fewer are shown one by one
const PROBLEMS = new Set(["ItemFailed", "BaseFailed", "Reconciled"]);
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
  ReindexAccepted: "{n} items are being reindexed",
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

/**
 * @param {Event[]} events newest first @param {(at: string) => string} dayOf the day of a time, as it is shown
 * @returns {(DayEntry | EventEntry)[]}
 */
export function groupEvents(events, dayOf) {
  /** @type {{day: string, runs: Event[][], problems: number}[]} */ const days = [];
  for (const event of events) {
    const day = dayOf(event.at);
    if (days.at(-1)?.day !== day) days.push({ day, runs: [], problems: 0 });
    const current = days[days.length - 1];
    const run = current.runs.at(-1);
    if (run && isProblem(run[0]) === isProblem(event)) run.push(event);
    else current.runs.push([event]);
    if (isProblem(event)) current.problems += 1;
  }
  return days.flatMap(({ day, runs, problems }) => [{ key: day, day, problems }, ...runs.flatMap(groupRun)]);
}
