import {
  KubeApiError,
  type KubeClient,
  type ListFormat,
  type ResourceType,
} from "../../../lib/kube/mod.ts";

/** Which objects to list, and how. */
export interface PageOptions<T, R> {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Only `metadata` is sent. */
  readonly metadataOnly?: boolean;
  /** Objects asked for at a time. */
  readonly pageSize: number;
  /** What to keep of each object: a cluster may have 100,000 pods. */
  readonly keep: (object: T) => R;
  /** Default: whole objects. */
  readonly format?: ListFormat<T>;
  readonly signal?: AbortSignal | undefined;
}

/** Lists objects of all namespaces page by page. */
export async function listPages<T extends object, R>(
  client: Pick<KubeClient, "list">,
  type: ResourceType<T>,
  { keep, pageSize, ...selection }: PageOptions<T, R>,
): Promise<R[]> {
  const kept: R[] = [];
  let next: { readonly continue?: string } = {};
  let limit: number | undefined = pageSize;
  for (;;) {
    try {
      const page = await client.list(type, { ...selection, ...next, limit });
      for (const object of page.items) kept.push(keep(object));
      if (page.continue === undefined) return kept;
      next = { continue: page.continue };
    } catch (error) {
      const isExpired = error instanceof KubeApiError && error.isGone &&
        next.continue !== undefined;
      if (!isExpired) throw error;
      // The pages took longer than the API server remembers: all at once.
      kept.length = 0;
      next = {};
      limit = undefined;
    }
  }
}
