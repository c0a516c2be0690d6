import { ADDRESS_BLOCKS, type AddressBlock } from "../../../lib/api/mod.ts";
import { KubeApiError, type KubeClient } from "../../../lib/kube/mod.ts";
import { FINALIZER } from "../../../lib/names/mod.ts";

/** A finalizer that is added or removed in the meantime costs one attempt. */
const MAX_ATTEMPTS = 5;

/**
 * Deletes a block whose node is gone, finalizer included. Idempotent. A block
 * of the same name with another UID is left alone.
 */
export async function releaseBlock(
  client: KubeClient,
  block: AddressBlock,
  { signal }: { readonly signal: AbortSignal },
): Promise<void> {
  const { name = "", uid = "", deletionTimestamp } = block.metadata;
  if (
    deletionTimestamp === undefined &&
    !await mark(client, { name, uid, signal })
  ) return;
  let finalizers = block.metadata.finalizers ?? [];
  for (let attempt = 1;; attempt++) {
    const position = finalizers.indexOf(FINALIZER);
    if (position < 0) return;
    try {
      await removeFinalizer(client, { name, uid, position, signal });
      return;
    } catch (error) {
      if (!(error instanceof KubeApiError)) throw error;
      if (error.isNotFound) return;
      // A failed "test" operation of a JSON patch is 422, a lost race 409.
      if (
        (error.status !== 422 && !error.isConflict) || attempt === MAX_ATTEMPTS
      ) throw error;
    }
    const live = await client.tryGet(ADDRESS_BLOCKS, { name, signal });
    if (live === undefined || live.metadata.uid !== uid) return;
    finalizers = live.metadata.finalizers ?? [];
  }
}

/** Asks for the deletion; false when the block is gone or another one now. */
async function mark(
  client: KubeClient,
  { name, uid, signal }: { name: string; uid: string; signal: AbortSignal },
): Promise<boolean> {
  try {
    await client.delete(ADDRESS_BLOCKS, {
      name,
      preconditions: { uid },
      signal,
    });
    return true;
  } catch (error) {
    if (
      error instanceof KubeApiError && (error.isNotFound || error.isConflict)
    ) return false;
    throw error;
  }
}

/** Removes Coil's finalizer if it is at the position and the block is the one meant. */
async function removeFinalizer(
  client: KubeClient,
  { name, uid, position, signal }: {
    name: string;
    uid: string;
    position: number;
    signal: AbortSignal;
  },
): Promise<void> {
  const path = `/metadata/finalizers/${position}`;
  await client.patch(ADDRESS_BLOCKS, { name, signal }, [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path, value: FINALIZER },
    { op: "remove", path },
  ], { kind: "json" });
}
