import { KubeApiError } from "../../kube/mod.ts";

/** Makes a request about an object that may be gone, or another one by now. */
export async function unlessGone(
  request: () => Promise<unknown>,
): Promise<void> {
  try {
    await request();
  } catch (error) {
    const isGone = error instanceof KubeApiError &&
      (error.isNotFound || error.isConflict);
    if (!isGone) throw error;
  }
}
