import { ADDRESS_BLOCKS } from "../../../lib/api/mod.ts";
import type { KubeClient } from "../../../lib/kube/mod.ts";
import { REQUEST_LABEL } from "../../../lib/names/mod.ts";

/** Requests whose blocks are asked for at once: their UIDs make a selector of 4 KB. */
const AT_ONCE = 100;

/**
 * Knows which block answers which request, by the request's UID, so that a
 * request whose answer could not be written, or was wiped, gets the same
 * block again. Only requests without an answer are held in memory; there are
 * a few of them and 50,000 blocks.
 */
export class RequestBlocks {
  readonly #client: KubeClient;
  readonly #names = new Map<string, string>();
  /** Requests that may have a block that this process knows nothing of. */
  readonly #doubtful = new Set<string>();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Notes a block that was just allocated. */
  note(requestUid: string, block: string): void {
    this.#names.set(requestUid, block);
  }

  /** A request that was there before has no answer: it may have had one. */
  doubt(requestUid: string): void {
    if (!this.#names.has(requestUid)) this.#doubtful.add(requestUid);
  }

  /** A request has its answer, or is gone. */
  forget(requestUid: string): void {
    this.#names.delete(requestUid);
    this.#doubtful.delete(requestUid);
  }

  /** Returns the name of the block that answers the request; asks the API server when in doubt. */
  async find(
    requestUid: string,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<string | undefined> {
    if (this.#doubtful.has(requestUid)) {
      const { items } = await this.#client.list(ADDRESS_BLOCKS, {
        labelSelector: `${REQUEST_LABEL}=${requestUid}`,
        limit: 1,
        metadataOnly: true,
        signal,
      });
      const name = items[0]?.metadata.name;
      if (name !== undefined) this.note(requestUid, name);
      this.#doubtful.delete(requestUid);
    }
    return this.#names.get(requestUid);
  }

  /**
   * Reads which blocks answer the requests that a new leader finds: the
   * former one may have allocated blocks without writing the answers. Asks
   * the API server, for the caches may not have the last of them yet.
   */
  async learn(
    requestUids: ReadonlySet<string>,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<void> {
    const uids = [...requestUids];
    for (let i = 0; i < uids.length; i += AT_ONCE) {
      const some = uids.slice(i, i + AT_ONCE);
      const { items } = await this.#client.list(ADDRESS_BLOCKS, {
        labelSelector: `${REQUEST_LABEL} in (${some.join(",")})`,
        metadataOnly: true,
        signal,
      });
      for (const { metadata } of items) {
        const uid = metadata.labels?.[REQUEST_LABEL] ?? "";
        this.note(uid, metadata.name ?? "");
      }
    }
  }
}
