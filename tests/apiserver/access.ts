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

/** Waits until it does: roles and bindings come into force a moment after they are stored, those of a kind in their order. */
export async function untilAllowed(
  plane: ControlPlane,
  access: Access,
): Promise<void> {
  const { user, verb, resource } = access;
  await eventually(
    `${user} to be allowed to ${verb} ${resource}`,
    () => isAllowed(plane, access),
  );
}
