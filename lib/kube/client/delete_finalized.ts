import { KubeApiError } from "../http/errors.ts";
import type { ResourceType } from "../api/resource.ts";
import type { KubeObject } from "../api/objects.ts";
import type { KubeClient } from "./client.ts";
import { unlessGone } from "./unless_gone.ts";

/** A finalizer that is added or removed in the meantime costs one attempt. */
const MAX_ATTEMPTS = 5;

/** Which finalizer goes with the object. */
export interface DeleteFinalizedOptions {
  /** The finalizer's name. */
  readonly finalizer: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Deletes a cluster-scoped object, this finalizer included. Idempotent. An object of the same name with another UID is
 * left alone.
 *
 * @throws {KubeApiError} when the API server refuses
 */
export async function deleteFinalized<T extends KubeObject>(
  client: Pick<KubeClient, "delete" | "patch" | "tryGet">,
  type: ResourceType<T>,
  { object, finalizer, signal }: DeleteFinalizedOptions & {
    readonly object: T;
  },
): Promise<void> {
  const { name = "", uid = "", deletionTimestamp } = object.metadata ?? {};
  const call = { type, name, uid, signal };
  if (deletionTimestamp === undefined && !await mark(client, call)) return;
  let finalizers = object.metadata?.finalizers ?? [];
  for (let attempt = 1;; attempt++) {
    const position = finalizers.indexOf(finalizer);
    if (position < 0) return;
    try {
      await removeFinalizer(client, { ...call, finalizer, position });
      return;
    } catch (error) {
      if (!(error instanceof KubeApiError)) throw error;
      if (error.isNotFound) return;
      // A failed "test" operation of a JSON patch is 422, a lost race 409.
      if (
        (error.status !== 422 && !error.isConflict) || attempt === MAX_ATTEMPTS
      ) throw error;
    }
    const live = await client.tryGet(type, { name, signal });
    if (live === undefined || live.metadata?.uid !== uid) return;
    finalizers = live.metadata?.finalizers ?? [];
  }
}

interface Target<T extends KubeObject> {
  readonly type: ResourceType<T>;
  readonly name: string;
  readonly uid: string;
  readonly signal: AbortSignal | undefined;
}

/** Asks for the deletion; false when the object is gone or another one now. */
function mark<T extends KubeObject>(
  client: Pick<KubeClient, "delete">,
  { type, name, uid, signal }: Target<T>,
): Promise<boolean> {
  return unlessGone(() =>
    client.delete(type, { name, preconditions: { uid }, signal })
  );
}

/** Removes the finalizer if it is at the position and the object is the one meant. */
async function removeFinalizer<T extends KubeObject>(
  client: Pick<KubeClient, "patch">,
  { type, name, uid, finalizer, position, signal }: Target<T> & {
    readonly finalizer: string;
    readonly position: number;
  },
): Promise<void> {
  const path = `/metadata/finalizers/${position}`;
  await client.patch(type, { name, signal }, [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path, value: finalizer },
    { op: "remove", path },
  ], { kind: "json" });
}
