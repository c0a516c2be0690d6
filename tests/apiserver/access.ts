/** Who may do what on a real API server, by its own word. */
import { type ControlPlane, eventually } from "../lab/mod.ts";

/** What a user wants to do; an empty namespace is all of them. */
export interface Access {
  readonly user: string;
  readonly groups?: readonly string[];
  readonly verb: string;
  readonly resource: string;
  readonly subresource?: string | undefined;
  readonly group?: string;
  readonly name?: string | undefined;
  readonly namespace?: string;
}

/** Whether the API server lets the user do that. */
export async function isAllowed(
  plane: ControlPlane,
  { user, groups, ...resourceAttributes }: Access,
): Promise<boolean> {
  const review = await plane.request(
    "POST",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      spec: { user, groups, resourceAttributes },
    },
  );
  return (review as { status: { allowed: boolean } }).status.allowed;
}

/**
 * Waits until it does: roles and bindings come into force a moment after they are stored, those of a kind in their order.
 * @throws {Error} when it still does not; the message names the right.
 */
export async function untilAllowed(
  plane: ControlPlane,
  access: Access,
): Promise<void> {
  const { user, verb } = access;
  await eventually(
    `${user} to be allowed to ${verb} ${targetOf(access)}`,
    () => isAllowed(plane, access),
  );
}

/** As kubectl writes it, e.g. `egresses.coil.cybozu.com/status in namespace "nat"`. */
function targetOf(
  { resource, subresource, group = "", name, namespace = "" }: Access,
): string {
  const kind = group === "" ? resource : `${resource}.${group}`;
  return [
    subresource === undefined ? kind : `${kind}/${subresource}`,
    ...(name === undefined ? [] : [`"${name}"`]),
    ...(namespace === "" ? [] : [`in namespace "${namespace}"`]),
  ].join(" ");
}
