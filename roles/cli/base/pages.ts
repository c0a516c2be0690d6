import {
  KubeApiError,
  type KubeClient,
  type ListEnvelope,
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
  client: Pick<KubeClient, "list" | "listItems">,
  type: ResourceType<T>,
  { keep, pageSize, format, ...selection }: PageOptions<T, R>,
): Promise<R[]> {
  const kept: R[] = [];
  const take = (object: T) => void kept.push(keep(object));
  let next: { readonly continue?: string } = {};
  let limit: number | undefined = pageSize;
  for (;;) {
    try {
      const query = { ...selection, ...next, limit };
      let page: ListEnvelope;
      if (format === undefined) {
        // JSON at once takes less time than item by item.
        const list = await client.list(type, query);
        list.items.forEach(take);
        page = list;
      } else {
        page = await client.listItems(type, { ...query, format }, take);
      }
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
