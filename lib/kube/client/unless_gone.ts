import { KubeApiError } from "../http/errors.ts";

/** Makes a request about an object; false when it is gone, or another one by now. */
export async function unlessGone(
  request: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await request();
    return true;
  } catch (error) {
    const isGone = error instanceof KubeApiError &&
      (error.isNotFound || error.isConflict);
    if (isGone) return false;
    throw error;
  }
}
