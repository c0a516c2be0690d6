import { timeText } from "./time.ts";

/** State of one aspect of an object, Kubernetes' `metav1.Condition`. */
export interface Condition {
  /** Name of the aspect, in CamelCase. */
  readonly type: string;
  /** Whether it holds. */
  readonly status: "True" | "False" | "Unknown";
  /** `metadata.generation` of the spec that it is about. */
  readonly observedGeneration?: number;
  /** RFC 3339 time. */
  readonly lastTransitionTime: string;
  /** Why, as a word in CamelCase for programs. */
  readonly reason: string;
  /** Why, in a sentence for people. */
  readonly message: string;
}

/** A condition without its times. */
export type ConditionDraft = Omit<
  Condition,
  "lastTransitionTime" | "observedGeneration"
>;

/**
 * Makes a condition of a draft. It keeps the `lastTransitionTime` of the
 * previous one of its type as long as its `status` stays the same, so that an
 * unchanged object gives an equal status.
 */
export function datedCondition(
  draft: ConditionDraft,
  { previous, generation, now }: {
    /** The conditions that the object has now. */
    readonly previous: readonly Condition[] | undefined;
    /** `metadata.generation` of the spec that the condition is about. */
    readonly generation: number;
    readonly now: Date;
  },
): Condition {
  const before = conditionOf(previous, draft.type);
  const lastTransitionTime = before?.status === draft.status
    ? before.lastTransitionTime
    : timeText(now);
  return { ...draft, observedGeneration: generation, lastTransitionTime };
}

/** The condition of the type, if there is one. */
export function conditionOf(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Whether two lists of conditions say the same but for their messages and times. */
export function sameConditions(
  a: readonly Condition[] | undefined,
  b: readonly Condition[] | undefined,
): boolean {
  const textOf = (conditions: readonly Condition[] = []) =>
    conditions.map(({ type, status, reason, observedGeneration }) =>
      [type, status, reason, observedGeneration].join(" ")
    ).sort().join();
  return textOf(a) === textOf(b);
}

/** JSON with sorted keys, to compare by: the API server returns fields in an order of its own. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value ?? {}, (_key, part: unknown) => {
    if (typeof part !== "object" || part === null) return part;
    if (Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).sort());
  });
}
