import {
  KubeApiError,
  type KubeClient,
  type ResourceType,
} from "../../../lib/kube/mod.ts";
import { listPages, type PageOptions } from "./pages.ts";

/** Objects, or a node (`unknown`), that could not be read. */
export interface Unseen {
  readonly what: string;
  readonly why: "forbidden" | "not served" | "unknown";
  /** What happened. */
  readonly detail?: string;
}

/** Which objects to look at. */
interface Selection<T> extends Omit<PageOptions<T, T>, "keep" | "pageSize"> {
  /** Most clusters have none: that they cannot be read is not worth a word. */
  readonly isOptional?: boolean;
}

/** Lists objects for a command that works with what it may read. */
export class Looker {
  readonly #client: Pick<KubeClient, "list" | "listItems">;
  readonly #pageSize: number;
  /** By the plural, in the order in which they were asked for: of what could be read, undefined. */
  readonly #asked = new Map<string, Unseen | undefined>();
  readonly #read = new Set<string>();

  constructor(
    client: Pick<KubeClient, "list" | "listItems">,
    pageSize: number,
  ) {
    this.#client = client;
    this.#pageSize = pageSize;
  }

  /** What was asked for and could not be read. */
  get unseen(): Unseen[] {
    return [...this.#asked.values()].filter((unseen) => unseen !== undefined);
  }

  /** What was asked for and could be read, by the plurals. */
  get seen(): string[] {
    return [...this.#read].filter((each) => !this.#asked.get(each));
  }

  /**
   * Lists objects; undefined when the user may not list them, or the cluster has no such resource.
   *
   * @throws {KubeApiError} for any other refusal
   * @throws {KubeUnreachableError} when the API server does not answer
   */
  async list<T extends object, R>(
    type: ResourceType<T>,
    keep: (object: T) => R,
    { isOptional = false, ...selection }: Selection<T> = {},
  ): Promise<R[] | undefined> {
    const { plural } = type;
    this.#asked.set(plural, this.#asked.get(plural));
    const pageSize = this.#pageSize;
    try {
      const found = await listPages(this.#client, type, {
        ...selection,
        pageSize,
        keep,
      });
      this.#read.add(plural);
      return found;
    } catch (error) {
      if (!(error instanceof KubeApiError)) throw error;
      const { isForbidden, isNotFound } = error;
      if (!isForbidden && !isNotFound) throw error;
      if (isOptional) return undefined;
      const why = isForbidden ? "forbidden" : "not served";
      this.#asked.set(plural, { what: plural, why });
      return undefined;
    }
  }
}
