// @ts-check
/** The forms of a search: the URL, the fields of the page and the request are translated without a loss. */

import {
  countFilters,
  fromQuery,
  fromRequest,
  toQuery,
  toRequest,
  toUrl,
} from "../../src/gristmill/server/ui/static/js/search/criteria.js";
import { proposeEmbedder } from "../../src/gristmill/server/ui/static/js/pages/propose-embedder.js";
import { mcpAddress, PROGRAMS, storeId } from "../../src/gristmill/server/ui/static/js/pages/connect/snippets.js";

/** @param {unknown} actual @param {unknown} expected */
function equal(actual, expected) {
  const [a, b] = [actual, expected].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

const URL_OF_ALL = "/search?" + new URLSearchParams({
  q: "wheel",
  mode: "text",
  bases: "b1,b2",
  types: "file,note",
  in: "f1",
  after: "2026-01-02",
  before: "2026-03-04",
  tags: "draft,rye",
  where: JSON.stringify([["team", "eq", "mill"], ["year", "gte", "2024"], ["kind", "nin", "a, 7"]]),
  min: "0.4",
  filters: JSON.stringify({ createdAfter: "2025-01-01T00:00:00Z" }),
});
/** @param {string} url */
const criteriaOf = (url) => fromQuery(new URL(url, "http://x").searchParams);

Deno.test("every field of the page comes back from the URL and from a saved request", () => {
  const criteria = criteriaOf(URL_OF_ALL);
  equal(toUrl(criteria), URL_OF_ALL);
  equal(fromRequest(toRequest(criteria)), criteria);
  equal(countFilters(criteria), 8);
});

Deno.test("a request has what the API takes, and nothing that was not set", () => {
  equal(toRequest(criteriaOf("/search?q=wheel")), { query: "wheel" });
  equal(toUrl(criteriaOf("/search")), "/search");
  const { filters, minScore } = toRequest(criteriaOf(URL_OF_ALL));
  equal(minScore, 0.4);
  equal(filters.metadata, { tags: ["draft", "rye"] });
  equal(filters.and, [
    { op: "in", key: "team", value: ["mill"] },
    { or: [{ op: "gte", key: "year", value: "2024" }, { op: "gte", key: "year", value: 2024 }] },
    { op: "nin", key: "kind", value: ["a", "7", 7] },
  ]);
  equal(new Date(filters.updatedBefore) > new Date(2026, 2, 4, 23), true); // the last day counts
});

Deno.test("conditions that the page has no field for stay in the request", () => {
  const nested = { or: [{ op: "eq", key: "a", value: 1 }, { op: "eq", key: "b", value: 2 }] };
  const request = { query: "x", filters: { and: [nested], metadata: { lang: "de" } } };
  const criteria = fromRequest(request);
  equal(criteria.conditions, []);
  equal(toRequest(criteriaOf(toUrl(criteria))), { query: "x", filters: { metadata: { lang: "de" }, and: [nested] } });
});

Deno.test("an address that someone has damaged is read as far as possible", () => {
  const criteria = criteriaOf("/search?q=x&where={&min=7&filters=[&after=soon&types=,,");
  equal(toRequest(criteria), { query: "x", minScore: 1 });
  equal(toQuery(criteria).where, null);
});

Deno.test("the model that knows most of the languages is proposed, and the default one among equals", () => {
  const common = { model: null, url: null, pricePerMillionTokens: null };
  const english = { ...common, name: "en", origin: /** @type {const} */ ("builtin"), englishOnly: true };
  const small = { ...english, languages: ["english"], isDefault: true };
  const many = { ...english, name: "many", languages: ["chinese", "english"], englishOnly: false, isDefault: false };
  const remote = { ...many, name: "remote", origin: /** @type {const} */ ("stored"), languages: null };
  equal(proposeEmbedder([small, many, remote], ["english"])?.name, "en");
  equal(proposeEmbedder([small, many, remote], ["english", "chinese"])?.name, "many");
  equal(proposeEmbedder([small, many, remote], [])?.name, "en");
  equal(proposeEmbedder([], ["english"]), null);
});

Deno.test("snippets have the address, the key and the base", () => {
  const base = { id: "01a1de95-5488-74bf-84b2-21a84726a825", name: "R&D it's" };
  const target = { origin: "https://kb.example.org", key: "gm_secret", base };
  equal(mcpAddress(target), `https://kb.example.org/mcp/${target.base.id}`);
  equal(storeId(target), "vs_01a1de95548874bf84b221a84726a825");
  for (const program of PROGRAMS) {
    const code = program.code(target);
    if (!code.includes("https://kb.example.org/") && !code.includes('"https://kb.example.org"')) throw new Error(code);
    if (!code.includes("gm_secret")) throw new Error(code);
    if (program.code({ ...target, key: "" }).includes("Bearer")) throw new Error(program.id);
  }
  equal(PROGRAMS[0].code(target).includes('"type": "http"'), true);
});
