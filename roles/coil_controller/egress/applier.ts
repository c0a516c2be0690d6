import type {
  KubeClient,
  KubeObject,
  ResourceType,
} from "../../../lib/kube/mod.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";
import { hasFormerManager, takeOver } from "../gateway/takeover.ts";
import {
  digestOf,
  fingerprintOf,
  type OwnedObject,
} from "../gateway/transform.ts";

/** Object to apply, and its known state. */
export interface ApplyOptions extends NamespacedName {
  /** All that the controller wants; what it applied before and is not in it is removed. */
  readonly plan: object;
  /** The object as watches know it. */
  readonly live: OwnedObject | undefined;
  /** Throws when an object belongs to another owner. */
  readonly check: (found: KubeObject) => void;
  readonly signal: AbortSignal;
}

export interface Applied<T> {
  /** The object as it is now; absent when it is the one that watches know. */
  readonly object?: T;
  readonly isNew: boolean;
}

interface Memory {
  readonly plan: string;
  readonly live: string;
}

/**
 * Applies objects on the server's side, which merges the plan with what
 * others wrote. Asks the server nothing as long as neither has changed.
 */
export class EgressApplier {
  readonly #client: KubeClient;
  /** What was applied last, and what the object was afterwards, by kind and key. */
  readonly #applied = new Map<string, Memory>();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Makes the object what the plan says; writes only if it is not. */
  async apply<T extends KubeObject>(
    type: ResourceType<T>,
    options: ApplyOptions,
  ): Promise<Applied<T>> {
    const { namespace, name, plan, live, check, signal } = options;
    const target = { namespace, name, signal };
    // What was applied on top of fields that are upstream's may look as wanted, and is not.
    const isFormer = live?.isFormer === true;
    if (
      live !== undefined && !isFormer && this.#isAsWanted(type, options, live)
    ) {
      return { isNew: false };
    }
    const read = live === undefined
      ? await this.#client.tryGet(type, target)
      : undefined;
    const found = live ?? read;
    if (found !== undefined) check(found);
    const wasFormer = isFormer || read !== undefined && hasFormerManager(read);
    if (
      read !== undefined && !wasFormer && this.#isAsWanted(type, options, read)
    ) {
      return { object: read, isNew: false };
    }
    if (wasFormer) await takeOver(this.#client, type, target);
    const object = await this.#client.patch(type, target, plan, {
      kind: "apply",
      force: true,
    });
    this.learn(type, { namespace, name, plan, object });
    return { object, isNew: found === undefined };
  }

  #isAsWanted<T>(
    type: ResourceType<T>,
    options: ApplyOptions,
    found: OwnedObject,
  ): boolean {
    const memory = this.#applied.get(memoryKeyOf(type, options));
    return memory?.plan === digestOf(options.plan) &&
      memory.live === (found.fingerprint ?? fingerprintOf(found));
  }

  /** Records the object as the result of the plan. */
  learn<T extends KubeObject>(
    type: ResourceType<T>,
    { plan, object, ...target }: NamespacedName & {
      readonly plan: object;
      readonly object: T;
    },
  ): void {
    this.#applied.set(memoryKeyOf(type, target), {
      plan: digestOf(plan),
      live: fingerprintOf(object),
    });
  }

  /** Forgets an object that is no longer wanted. */
  forget<T>(type: ResourceType<T>, target: NamespacedName): void {
    this.#applied.delete(memoryKeyOf(type, target));
  }
}

function memoryKeyOf<T>(
  { plural }: ResourceType<T>,
  target: NamespacedName,
): string {
  return `${plural}/${nameText(target)}`;
}
