import {
  type DeleteOptions,
  KubeApiError,
  type KubeClient,
  type KubeObject,
  type ResourceType,
} from "../../../lib/kube/mod.ts";

/** Deletes an object; the watches that know of it may not have reported its end yet. */
export async function deleteIfThere<T extends KubeObject>(
  client: KubeClient,
  type: ResourceType<T>,
  target: DeleteOptions,
): Promise<void> {
  try {
    await client.delete(type, target);
  } catch (error) {
    if (!(error instanceof KubeApiError && error.isNotFound)) throw error;
  }
}
