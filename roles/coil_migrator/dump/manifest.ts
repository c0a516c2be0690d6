// The manifest: what `dump` writes and the admin applies. It is deterministic,
// and its header shows whether it was changed since.
import { createHash } from "node:crypto";
import { parseAllDocuments, stringify } from "yaml";
import type { KubeObject } from "../../../lib/kube/mod.ts";
import type { Conversion } from "../convert/conversion.ts";
import { findingLine } from "../convert/finding.ts";

const TITLE = "# Coil v1's state for Coil v2, made by coil migrate dump.";
const DIGEST_LINE = /^# objects: (\d+), sha256: ([0-9a-f]{64})$/m;
const DIGEST_PREFIX = "# objects: ";

/** How many objects of each kind a manifest has. */
export interface ManifestCounts {
  readonly pools: number;
  readonly blocks: number;
  readonly namespaces: number;
}

/** How a manifest differs from what was written. */
export type ManifestState =
  /** As it was written. */
  | { readonly state: "intact"; readonly digest: string }
  /** All objects are there, but not as they were written. */
  | { readonly state: "edited" }
  /** There are fewer objects than the header says. */
  | {
    readonly state: "cut short";
    readonly expected: number;
    readonly found: number;
  }
  /** It is not a manifest of ours. */
  | { readonly state: "foreign" };

/** The manifest's text. The same conversion gives the same text. */
export function formatManifest(conversion: Conversion): string {
  const { findings } = conversion;
  const objects = objectsOf(conversion);
  const body = objects.map((object) =>
    stringify(object, { lineWidth: 0, aliasDuplicateObjects: false })
  ).join("---\n");
  const notes = findings.map((finding) => `# ${findingLine(finding)}\n`);
  const remarks = notes.length === 0
    ? ""
    : `#\n# What to know before it is applied:\n${notes.join("")}`;
  const rest = `${remarks}---\n${body}`;
  return `${TITLE}
# Apply it before Coil v2's workloads start:
#   kubectl apply --server-side --field-manager=coil-migrator -f THIS_FILE
# See docs/migrate.md. The next line shows whether the file is whole and unchanged.
${DIGEST_PREFIX}${objects.length}, sha256: ${sha256(rest)}
${rest}`;
}

/** Finds out whether a manifest is as it was written. */
export function inspectManifest(text: string): ManifestState {
  const match = DIGEST_LINE.exec(text);
  if (!text.startsWith(TITLE) || match === null) return { state: "foreign" };
  const [line, count, digest = ""] = match;
  const rest = text.slice(match.index + line.length + 1);
  if (sha256(rest) === digest) return { state: "intact", digest };
  const expected = Number(count);
  // Those that are cut in the middle have no kind or cannot be read.
  const found = objectsIn(rest)
    .filter((object) => "kind" in object && "metadata" in object).length;
  return found < expected
    ? { state: "cut short", expected, found }
    : { state: "edited" };
}

/** The digest in the header of a manifest. */
export function digestOf(text: string): string {
  return DIGEST_LINE.exec(text)?.[2] ?? "";
}

export function countsOf(conversion: Conversion): ManifestCounts {
  const { pools, blocks, namespaces } = conversion;
  return {
    pools: pools.length,
    blocks: blocks.length,
    namespaces: namespaces.length,
  };
}

/**
 * Blocks before pools, which they need not: they have no owner. When v2 runs already, or only a part is applied, no pod
 * gets an address of a pool before those that v1 has given out are reserved.
 */
function objectsOf(
  { pools, namespaces, blocks }: Conversion,
): readonly unknown[] {
  return [...blocks, ...pools, ...namespaces];
}

/** The objects of a manifest that can be read. */
export function objectsIn(text: string): KubeObject[] {
  const documents = parseAllDocuments(text);
  if (!Array.isArray(documents)) return [];
  return documents.flatMap((document) => {
    const value: unknown = document.errors.length > 0 ? null : document.toJS();
    return typeof value === "object" && value !== null ? [value] : [];
  });
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
