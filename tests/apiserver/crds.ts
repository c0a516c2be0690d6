/** Helpers of the tests of `crds/`: install them, send an object, read why it was refused. */
import assert from "node:assert/strict";
import { parse } from "yaml";
import type { ControlPlane } from "../lab/mod.ts";

const CRDS = new URL("../../crds/", import.meta.url);

/** Path of the API of Coil's resources. */
export const COIL_API = "/apis/coil.cybozu.com/v2";

/** Applies all files of `crds/` and waits until the API server serves them. */
export async function installCrds(
  plane: ControlPlane,
  options: { readonly withoutRules?: boolean } = {},
): Promise<void> {
  for await (const { name: file } of Deno.readDir(CRDS)) {
    if (!file.endsWith(".yaml")) continue;
    const crd = parse(await Deno.readTextFile(new URL(file, CRDS)));
    await plane.apply(options.withoutRules ? withoutRules(crd) : crd);
  }
  await plane.definitionsEstablished();
}

/** The definition as a Coil without CEL rules has it. */
function withoutRules(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutRules);
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([key]) =>
    key !== "x-kubernetes-validations" && key !== "maxItems"
  );
  return Object.fromEntries(kept.map(([key, v]) => [key, withoutRules(v)]));
}

/** The headers of the widest table that kubectl shows of a resource. */
export async function columnsOf(
  plane: ControlPlane,
  resource: string,
): Promise<string[]> {
  const [header = ""] = (await plane.kubectl("get", resource, "-o", "wide"))
    .split("\n");
  return header.trim().split(/ {2,}/);
}

/** A request to the API server. */
export interface ApiRequest {
  readonly method: "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
}

interface Status {
  readonly message?: string;
  readonly details?: {
    readonly causes?: readonly {
      readonly field?: string;
      readonly message?: string;
    }[];
  };
}

/** The API server says so beside a cause that is in the schema. */
const UNCHECKED = "some validation rules were not checked";

/**
 * Sends a request and returns why it was refused, a line `field: message`
 * for each cause; no line means that it was accepted.
 */
export async function refusals(
  plane: ControlPlane,
  request: ApiRequest,
): Promise<string[]> {
  return await refusalsAt(plane, { ...request, path: COIL_API + request.path });
}

/** As {@linkcode refusals}, of any API: the path is whole. */
export async function refusalsAt(
  plane: ControlPlane,
  { method, path, body }: ApiRequest,
): Promise<string[]> {
  const contentType = method === "PATCH"
    ? "application/merge-patch+json"
    : "application/json";
  try {
    await plane.request(method, path, body, { contentType });
    return [];
  } catch (error) {
    const text = error instanceof Error ? error.message : "";
    const json = text.slice(text.indexOf("{"));
    if (!/status 422/.test(text)) throw error;
    const status: Status = JSON.parse(json);
    const causes = status.details?.causes ?? [];
    return causes
      .map(({ field, message }) => `${field}: ${message}`)
      .filter((line) => !line.includes(UNCHECKED));
  }
}

/** Fails unless each line has its part of what is expected, and there is no other. */
export function assertRefused(
  lines: readonly string[],
  expected: readonly string[] = [],
): void {
  assert.equal(lines.length, expected.length, lines.join("\n"));
  expected.forEach((part, i) => {
    assert.ok(lines[i]?.includes(part), `${lines[i]} is not ${part}`);
  });
}
