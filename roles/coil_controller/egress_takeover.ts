import type {
  KubeClient,
  KubeObject,
  ResourceType,
} from "../../lib/kube/mod.ts";

/** Who we are to the API server; the client writes under this name. */
export const FIELD_MANAGER = "coil-controller";

/** Under which names upstream's controllers wrote, before there was server-side apply. */
const FORMER_MANAGERS: readonly string[] = [
  "coil-egress-controller",
  FIELD_MANAGER,
];

/** The parts of `metav1.ManagedFieldsEntry` that matter here. */
interface ManagedFields {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
}

/** Whether upstream's controller made the object, so that fields are still its. */
export function hasFormerManager({ metadata }: KubeObject): boolean {
  return (metadata?.managedFields ?? []).some(isFormer);
}

/**
 * Takes over what upstream's controller owns of an object. Otherwise what it
 * once wrote, and nobody wants any more, would stay for ever.
 *
 * @throws {KubeApiError} when the object was changed meanwhile
 */
export async function takeOver<T extends KubeObject>(
  client: KubeClient,
  type: ResourceType<T>,
  target: {
    readonly namespace: string;
    readonly name: string;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { metadata } = await client.get(type, target);
  const entries = metadata?.managedFields ?? [];
  const [former] = entries.filter(isFormer);
  if (former === undefined) return;
  const others = entries.filter((entry) => !isFormer(entry));
  const value = others.some(isOurs)
    ? others
    : [...others, { ...former, manager: FIELD_MANAGER, operation: "Apply" }];
  const { resourceVersion } = metadata ?? {};
  await client.patch(type, target, [
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
    { op: "replace", path: "/metadata/managedFields", value },
  ], { kind: "json" });
}

function isFormer(entry: unknown): entry is object {
  const { manager, operation, subresource } = parseEntry(entry);
  return operation === "Update" && subresource === undefined &&
    FORMER_MANAGERS.includes(manager ?? "");
}

function isOurs(entry: unknown): boolean {
  const { manager, operation, subresource } = parseEntry(entry);
  return manager === FIELD_MANAGER && operation === "Apply" &&
    subresource === undefined;
}

function parseEntry(entry: unknown): ManagedFields {
  return typeof entry === "object" && entry !== null ? entry : {};
}
