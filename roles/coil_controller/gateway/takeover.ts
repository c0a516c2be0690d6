import type {
  KubeClient,
  KubeObject,
  ResourceType,
} from "../../../lib/kube/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

/** Our field manager; the client writes under this name. */
export const FIELD_MANAGER = "coil-controller";

/** Under which names upstream's controllers wrote, before there was server-side apply; the second until they were two. */
const FORMER_MANAGERS: readonly string[] = [
  "coil-egress-controller",
  FIELD_MANAGER,
];

/** The parts of `metav1.ManagedFieldsEntry` that matter here. */
interface ManagedFields {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
  readonly fieldsV1?: FieldSet;
}

/** Fields of an object as a tree, `metav1.FieldsV1`: a key is a step of their paths. */
interface FieldSet {
  readonly [step: string]: FieldSet;
}

/** Whether upstream's controller made the object, so that it still owns fields. */
export function hasFormerManager({ metadata }: KubeObject): boolean {
  return formersOf(metadata?.managedFields ?? []).length > 0;
}

/**
 * Takes over what upstream's controller owns of an object. Otherwise what it
 * once wrote and is no longer wanted would stay for ever.
 *
 * @throws {KubeApiError} when the object was changed in between
 */
export async function takeOver<T extends KubeObject>(
  client: KubeClient,
  type: ResourceType<T>,
  target: NamespacedName & { readonly signal: AbortSignal },
): Promise<void> {
  const { metadata } = await client.get(type, target);
  const entries = metadata?.managedFields ?? [];
  const formers = formersOf(entries);
  const base = entries.find(isOurs) ?? formers[0];
  if (formers.length === 0 || base === undefined) return;
  const taken = [base, ...formers];
  const value = [
    ...entries.filter((entry) => !taken.includes(entry)),
    {
      ...parseEntry(base),
      manager: FIELD_MANAGER,
      operation: "Apply",
      fieldsV1: taken
        .map((entry) => parseEntry(entry).fieldsV1 ?? {})
        .reduce(unite),
    },
  ];
  const { resourceVersion } = metadata ?? {};
  await client.patch(type, target, [
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
    { op: "replace", path: "/metadata/managedFields", value },
  ], { kind: "json" });
}

/** The fields that are in any of the two. */
function unite(a: FieldSet, b: FieldSet): FieldSet {
  const united: Record<string, FieldSet> = { ...a };
  for (const [step, fields] of Object.entries(b)) {
    united[step] = unite(united[step] ?? {}, fields);
  }
  return united;
}

/**
 * Beside what we apply, an update under our name is not a former
 * controller's: under it the API server records what admission webhooks do to
 * an applied object.
 */
function formersOf(entries: readonly unknown[]): readonly unknown[] {
  const names = entries.some(isOurs)
    ? FORMER_MANAGERS.filter((name) => name !== FIELD_MANAGER)
    : FORMER_MANAGERS;
  return entries.filter((entry) => {
    const { manager = "", operation, subresource } = parseEntry(entry);
    return operation === "Update" && subresource === undefined &&
      names.includes(manager);
  });
}

function isOurs(entry: unknown): boolean {
  const { manager, operation, subresource } = parseEntry(entry);
  return manager === FIELD_MANAGER && operation === "Apply" &&
    subresource === undefined;
}

function parseEntry(entry: unknown): ManagedFields {
  return typeof entry === "object" && entry !== null ? entry : {};
}
