/**
 * A typed client of Gristmill's REST API for browsers, Deno, Bun and Node. It is one function around `fetch`; all types come from
 * `schema.d.ts`, which is generated from the schema of your server (see README.md), so that they fit its version.
 */

import type { paths } from "./schema.d.ts";

/** The HTTP methods that the API uses. */
export type Method = "get" | "post" | "put" | "patch" | "delete";

/** The paths that have a method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends { [K in M]: object } ? P : never;
}[keyof paths];

type Operation<M extends Method, P extends PathOf<M>> = paths[P] extends { [K in M]: infer O } ? O : never;
type Json<T> = T extends { content: { "application/json": infer B } } ? B : never;
type Body<O> = O extends { requestBody?: infer B } ? Json<NonNullable<B>> : never;
type Parameters<O, K extends "path" | "query"> = O extends { parameters: { [N in K]?: infer T } } ? NonNullable<T>
  : never;
type Success<R> = { [S in keyof R & (200 | 201 | 202)]: Json<R[S]> }[keyof R & (200 | 201 | 202)];

/** What a method of a path returns; undefined where the response has no body. */
export type Result<M extends Method, P extends PathOf<M>> = Operation<M, P> extends { responses: infer R }
  ? [Success<R>] extends [never] ? undefined : Success<R>
  : never;

/** What a call can be given: values for the path and the query, a body, headers, a signal that ends it. */
export interface Options<O> {
  path?: Parameters<O, "path">;
  query?: Parameters<O, "query">;
  body?: Body<O>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** A refused request: handle the `code`, show the `message`. */
export class GristmillError extends Error {
  override name = "GristmillError";

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly errors: { field: string; message: string }[] = [],
  ) {
    super(message);
  }
}

/** A server and the key to use there. Without a key, only the server's own machine is accepted. */
export class Client {
  readonly #url: string;
  readonly #headers: Record<string, string>;

  constructor(url = "http://127.0.0.1:7373", key?: string) {
    this.#url = url.replace(/\/+$/, "");
    this.#headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  }

  /** Send a request. Raises GristmillError if it is refused. */
  async call<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    options: Options<Operation<M, P>> = {},
  ): Promise<Result<M, P>> {
    const response = await this.#send(method, this.#address(String(path), options.path, options.query), {
      headers: { ...(options.body === undefined ? {} : { "Content-Type": "application/json" }), ...options.headers },
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
    });
    const text = await response.text();
    return (text === "" ? undefined : JSON.parse(text)) as Result<M, P>;
  }

  /** Upload files to a base; the response of `POST /api/knowledge-bases/{base_id}/files`. */
  async upload(
    baseId: string,
    files: File[],
  ): Promise<Exclude<Result<"post", "/api/knowledge-bases/{base_id}/files">, { readDocuments: number }>> {
    const form = new FormData();
    for (const file of files) form.append("files", file, file.name);
    const address = this.#address("/api/knowledge-bases/{base_id}/files", { base_id: baseId });
    return await (await this.#send("post", address, { body: form })).json();
  }

  /** All entries of a list, page by page. */
  async *list<P extends PathOf<"get">>(
    path: P,
    options: Options<Operation<"get", P>> = {},
  ): AsyncGenerator<Result<"get", P> extends { items: (infer T)[] } ? T : never> {
    let cursor: string | null | undefined;
    do {
      const query = { ...options.query, ...(cursor ? { cursor } : {}) } as Parameters<Operation<"get", P>, "query">;
      const page = await this.call("get", path, { ...options, query });
      const { items, nextCursor } = page as unknown as { items: never[]; nextCursor?: string | null };
      yield* items;
      cursor = nextCursor;
    } while (cursor);
  }

  #address(path: string, values: object = {}, query: object = {}): string {
    const named = new Map(Object.entries(values));
    const address = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(named.get(name))));
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== undefined && one !== null) parameters.append(name, String(one));
      }
    }
    return this.#url + address + (parameters.size ? `?${parameters}` : "");
  }

  async #send(method: Method, address: string, request: RequestInit): Promise<Response> {
    const headers = { ...this.#headers, ...(request.headers as Record<string, string>) };
    const response = await fetch(address, { ...request, method: method.toUpperCase(), headers });
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    const message = problem.detail ?? `The server answered ${response.status}.`;
    throw new GristmillError(response.status, problem.code ?? "unexpected_response", message, problem.errors);
  }
}
