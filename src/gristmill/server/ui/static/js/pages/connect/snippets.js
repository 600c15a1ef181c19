// @ts-check
/** What to paste where, for each program that can use a base. Pure: an address, a key and a base in, text out. */

/** @typedef {{origin: string, key: string, base: {id: string, name: string} | null}} Target without a key: "" */
/** @typedef {{id: string, label: string, file: string, code: (target: Target) => string}} Program */

/** @param {unknown} value */
const json = (value) => JSON.stringify(value, null, 2);

/** @param {Target} target The address of the tools, of one base or of all. It stays when the base is renamed. */
export const mcpAddress = ({ origin, base }) => `${origin}/mcp${base ? `/${base.id}` : ""}`;

/** @param {Target} target A base as OpenAI's clients know it. */
export const storeId = ({ base }) => (base ? `vs_${base.id.replaceAll("-", "")}` : "vs_…");

/** @param {Target} target */
function mcpServer(target) {
  const headers = target.key ? { headers: { Authorization: `Bearer ${target.key}` } } : {};
  return { type: "http", url: mcpAddress(target), ...headers };
}

/** @param {string} text A text in single quotes of a shell. */
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {Target} target */
function curl({ origin, key, base }) {
  const path = base ? `/api/knowledge-bases/${base.id}/search` : "/api/search";
  const header = key ? [`  -H ${shellQuoted(`Authorization: Bearer ${key}`)}`] : [];
  const lines = [
    `curl ${shellQuoted(origin + path)}`,
    ...header,
    `  -H 'Content-Type: application/json'`,
    `  -d '{"query": "refund", "limit": 5}'`,
  ];
  return lines.join(" \\\n");
}

/** @param {Target} target */
function python({ origin, key, base }) {
  const client = key ? `gristmill.Client(${json(origin)}, key=${json(key)})` : `gristmill.Client(${json(origin)})`;
  const bases = base ? `, [${json(base.id)}]` : "";
  return [
    "import gristmill",
    "",
    `with ${client} as client:`,
    `    for hit in client.search("refund"${bases})["hits"]:`,
    `        print(round(hit["score"], 2), hit["title"], hit["text"])`,
  ].join("\n");
}

/** @param {Target} target */
function openaiPython(target) {
  return [
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${json(`${target.origin}/v1`)}, api_key=${json(target.key || "local")})`,
    `for result in client.vector_stores.search(${json(storeId(target))}, query="refund"):`,
    "    print(result.score, result.filename, result.content[0].text)",
  ].join("\n");
}

/** @param {Target} target */
function openaiNode(target) {
  return [
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI({ baseURL: ${json(`${target.origin}/v1`)}, apiKey: ${json(target.key || "local")} });`,
    `const page = await client.vectorStores.search(${json(storeId(target))}, { query: "refund" });`,
    "for (const result of page.data) console.log(result.score, result.filename, result.content[0].text);",
  ].join("\n");
}

/** @param {Target} target */
const dify = ({ origin, key, base }) =>
  [
    `API Endpoint:           ${origin}/dify`,
    `API Key:                ${key || "local"}`,
    `External Knowledge ID:  ${base ? base.id : "…"}`,
  ].join("\n");

/** @type {Program[]} */
export const PROGRAMS = [
  {
    id: "claude",
    label: "Claude",
    file: ".mcp.json",
    code: (target) => json({ mcpServers: { gristmill: mcpServer(target) } }),
  },
  {
    id: "cursor",
    label: "Cursor",
    file: "~/.cursor/mcp.json",
    code: (target) => json({ mcpServers: { gristmill: mcpServer(target) } }),
  },
  {
    id: "vscode",
    label: "VS Code",
    file: ".vscode/mcp.json",
    code: (target) => json({ servers: { gristmill: mcpServer(target) } }),
  },
  { id: "curl", label: "curl", file: "", code: curl },
  { id: "python", label: "Python", file: "", code: python },
  { id: "openai-python", label: "OpenAI (Python)", file: "", code: openaiPython },
  { id: "openai-node", label: "OpenAI (Node)", file: "", code: openaiNode },
  { id: "dify", label: "Dify", file: "", code: dify },
];

/** @param {string} id Whether the program can only use one base at a time. */
export const needsBase = (id) => id.startsWith("openai") || id === "dify";
