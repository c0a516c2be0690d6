import { type ControlPlane, eventually } from "../lab/mod.ts";

interface List {
  readonly metadata: { readonly resourceVersion: string };
}

/**
 * Waits until the API server has in its memory what is stored of a collection. Informers begin with that, and on a slow
 * machine it follows etcd by a moment.
 *
 * @see https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
 */
export async function untilInMemory(
  plane: ControlPlane,
  path: string,
): Promise<void> {
  // The version counts alone: no object has this label.
  const none = `${path}?labelSelector=none`;
  const { metadata } = await eventually(
    `${path} to be served`,
    async () => await plane.request("GET", none) as List,
  );
  const least =
    `resourceVersion=${metadata.resourceVersion}&resourceVersionMatch=NotOlderThan`;
  await eventually(`${path} in the API server's memory`, async () => {
    await plane.request("GET", `${none}&${least}`);
    return true;
  });
}
