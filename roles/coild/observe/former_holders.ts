import type { AttachmentKey } from "../../../lib/cni/mod.ts";
import type { FormerHolder } from "../../../lib/cnirpc/inspection/mod.ts";
import {
  type Address,
  type DualStack,
  valuesOf,
} from "../../../lib/inet/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("ipam");

/** How long a former holder is remembered. */
const KEPT_MS = 24 * 60 * 60 * 1_000;

/** Of each of the two files: some 3,500 former holders. */
const MAX_FILE_BYTES = 1024 * 1024;

export interface FormerHoldersOptions {
  /** Of the newer file. */
  readonly path: string;
  readonly now?: () => Date;
}

/**
 * Remembers for a day who had the node's addresses, also over a restart: one
 * line of JSON for each, in two files that take turns. Nothing is decided by
 * them, so what cannot be written or read is only missing. One line is one
 * write: a process that is killed leaves whole lines.
 */
export class FormerHolders {
  readonly #path: string;
  readonly #now: () => Date;
  #isFailing = false;

  constructor({ path, now = () => new Date() }: FormerHoldersOptions) {
    this.#path = path;
    this.#now = now;
  }

  /** Notes that an attachment no longer has its addresses; the pod where it is known. */
  note(
    { containerId, ifname, addresses }: AttachmentKey & {
      readonly addresses: DualStack<Address>;
    },
    { namespace, name }: Partial<NamespacedName> = {},
  ): void {
    const holder: FormerHolder = {
      addresses: valuesOf(addresses).map(String),
      containerId,
      ifname,
      namespace,
      pod: name,
      until: this.#now().toISOString(),
    };
    try {
      this.#append(`${JSON.stringify(holder)}\n`);
      this.#isFailing = false;
    } catch (err) {
      if (!this.#isFailing) {
        log.warn("Cannot note who had an address", { path: this.#path, err });
      }
      this.#isFailing = true;
    }
  }

  /** Who had the address within a day, the last one first. @throws {Error} when a file cannot be read */
  async of(address: Address): Promise<FormerHolder[]> {
    const texts = await Promise.all(
      [this.#older, this.#path].map(readIfPresent),
    );
    const sinceMs = this.#now().getTime() - KEPT_MS;
    return texts.join("").split("\n").reverse()
      .filter((line) => line.includes(`"${address}"`))
      .flatMap((line) => tryParse(line) ?? [])
      .filter(({ addresses, until }) =>
        addresses.includes(`${address}`) && Date.parse(until) > sinceMs
      );
  }

  get #older(): string {
    return `${this.#path}.1`;
  }

  #append(line: string): void {
    using file = Deno.openSync(this.#path, {
      append: true,
      create: true,
      mode: 0o600,
    });
    file.writeSync(new TextEncoder().encode(line));
    if (file.statSync().size > MAX_FILE_BYTES) {
      Deno.renameSync(this.#path, this.#older);
    }
  }
}

async function readIfPresent(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/** Undefined for a line that a full disk has cut. */
function tryParse(line: string): FormerHolder | undefined {
  try {
    const holder: Partial<FormerHolder> | null = JSON.parse(line);
    return Array.isArray(holder?.addresses) && typeof holder.until === "string"
      ? holder as FormerHolder
      : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
