import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  type AddressPool,
} from "../../../lib/api/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  type KubeObject,
} from "../../../lib/kube/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import { objectsIn } from "./manifest.ts";
import { readManifest } from "./manifest_file.ts";

/** How a manifest and the cluster differ. */
export interface ManifestComparison {
  /** Whether the file is as it was written. */
  readonly state: "intact" | "edited" | "cut short" | "foreign";
  /** Objects of the manifest that the cluster has not. */
  readonly missing: readonly string[];
  /** What is wrong, in words. Missing objects alone are not: the manifest may not be applied yet. */
  readonly problems: readonly string[];
}

/** Compares a manifest with the cluster's pools and blocks. @throws {CommandError} when it cannot be read. */
export async function compareManifest(
  client: KubeClient,
  { file, signal }: { readonly file: string; readonly signal: AbortSignal },
): Promise<ManifestComparison> {
  const manifest = await readManifest(file);
  if (manifest === undefined) {
    throw new CommandError(`Cannot read manifest "${file}": it does not exist`);
  }
  const { state } = manifest.state;
  const problems = state === "intact" ? [] : [
    `manifest ${file} is ${
      state === "foreign" ? "not of coil migrate dump" : state
    }`,
  ];
  const present = await readPresent(client, signal);
  const missing: string[] = [];
  for (const object of objectsIn(manifest.text).filter(isOurs)) {
    const key = keyOf(object);
    const found = present.get(key);
    if (found === undefined) missing.push(key);
    else if (found !== contentOf(object)) {
      problems.push(`${key} is not as in the manifest`);
    }
  }
  return { state, missing, problems };
}

type Ours = AddressPool | AddressBlock;

function isOurs(object: KubeObject): object is Ours {
  return object.kind === "AddressPool" || object.kind === "AddressBlock";
}

async function readPresent(
  client: KubeClient,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const present = new Map<string, string>();
  const add = (kind: Ours["kind"]) => (object: Ours) =>
    void present.set(keyOf({ ...object, kind }), contentOf(object));
  try {
    await client.listItems(ADDRESS_POOLS, { signal }, add("AddressPool"));
    await client.listItems(ADDRESS_BLOCKS, { signal }, add("AddressBlock"));
  } catch (error) {
    if (!(error instanceof KubeApiError && error.isNotFound)) throw error;
  }
  return present;
}

function keyOf({ kind, metadata }: KubeObject): string {
  return `${kind} ${metadata?.name}`;
}

/** What a manifest says of an object, as text that can be compared. */
function contentOf(object: Ours): string {
  if ("spec" in object) {
    const { blockSizeBits, subnets } = object.spec;
    return JSON.stringify([blockSizeBits, subnets.map(({ ipv4 }) => ipv4)]);
  }
  const { index, ipv4, metadata: { labels = {} } } = object;
  return JSON.stringify([index, ipv4, Object.entries(labels).sort()]);
}
