import { ADDRESS_BLOCKS, type AddressBlock } from "../../lib/api/mod.ts";
import type { Informer, KubeClient } from "../../lib/kube/mod.ts";
import { REQUEST_LABEL } from "../../lib/names/mod.ts";

/**
 * Remembers which block answers which request, by the request's UID, so that
 * a request whose answer could not be written gets the same block again.
 *
 * What this process carves is noted at once; the informer, which may lag
 * behind, tells of the rest.
 */
export class RequestBlocks {
  readonly #names = new Map<string, string>();

  /** Follows the blocks of an informer. */
  follow(blocks: Informer<AddressBlock>): Disposable {
    return blocks.subscribe(({ type, object }) => {
      const uid = object.metadata.labels?.[REQUEST_LABEL];
      if (uid === undefined) return;
      const name = object.metadata.name ?? "";
      if (type !== "deleted") this.#names.set(uid, name);
      else if (this.#names.get(uid) === name) this.#names.delete(uid);
    });
  }

  /** Notes a block that was just carved. */
  note(requestUid: string, block: string): void {
    this.#names.set(requestUid, block);
  }

  /** Returns the name of the block that answers the request. */
  find(requestUid: string): string | undefined {
    return this.#names.get(requestUid);
  }

  /**
   * Reads from the newest state which blocks answer the requests: the first
   * list of the informer comes from the API server's cache, which may not
   * have what a former leader did last.
   */
  async learn(
    client: KubeClient,
    requestUids: ReadonlySet<string>,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<void> {
    if (requestUids.size === 0) return;
    let next: string | undefined;
    do {
      const page = await client.list(ADDRESS_BLOCKS, {
        metadataOnly: true,
        limit: PAGE_SIZE,
        signal,
        ...(next === undefined ? {} : { continue: next }),
      });
      for (const { metadata } of page.items) {
        const uid = metadata.labels?.[REQUEST_LABEL] ?? "";
        if (requestUids.has(uid)) this.note(uid, metadata.name ?? "");
      }
      next = page.continue;
    } while (next !== undefined);
  }
}

const PAGE_SIZE = 500;
