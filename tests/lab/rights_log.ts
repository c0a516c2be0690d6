import * as path from "node:path";
import type { AuditedRequest } from "./audit.ts";
import type { ControlPlane } from "./control_plane.ts";

/** Names the directory in which the labs of a whole run of tests note who used what. */
export const RIGHTS_DIRECTORY_ENV = "COIL_RIGHTS_DIRECTORY";

/** A right that a user asked for, and the program that used it. */
export interface UsedRight {
  readonly user: string;
  /** As {@linkcode rightOf} says it. */
  readonly right: string;
  /** Whether it was not refused each time: an API server that has just started may not know its roles yet. */
  readonly isGranted: boolean;
}

/** A request's verb and resource: "patch addresspools/status". */
export function rightOf(
  { verb, resource, subresource }: AuditedRequest,
): string {
  return `${verb} ${resource}${
    subresource === undefined ? "" : `/${subresource}`
  }`;
}

/** A watch that begins with all objects is a list where the API server has no such watches, and needs both rights. */
function rightsOf(request: AuditedRequest): string[] {
  const isList = request.verb === "watch" &&
    request.uri.includes("sendInitialEvents=true");
  return [
    rightOf(request),
    ...isList ? [rightOf({ ...request, verb: "list" })] : [],
  ];
}

/** Each right once that service accounts asked for. */
export function usedRights(
  requests: readonly AuditedRequest[],
): readonly UsedRight[] {
  const found = new Map<string, UsedRight>();
  for (const request of requests) {
    const { user, code } = request;
    if (!user.startsWith("system:serviceaccount:")) continue;
    for (const right of rightsOf(request)) {
      const key = `${user} ${right}`;
      const isGranted = code !== 403 || found.get(key)?.isGranted === true;
      found.set(key, { user, right, isGranted });
    }
  }
  return [...found.values()];
}

/** Keeps what was used of an API server beyond its end, when the run of tests wants to know. Its audit must be on. */
export async function noteRights(plane: ControlPlane): Promise<void> {
  const directory = Deno.env.get(RIGHTS_DIRECTORY_ENV);
  if (directory === undefined) return;
  const used = usedRights(await plane.auditRequests());
  const file = path.join(
    directory,
    `${plane.name}-${crypto.randomUUID()}.json`,
  );
  await Deno.writeTextFile(file, JSON.stringify(used));
}

/** All that was noted in a directory. */
export async function readRights(
  directory: string,
): Promise<readonly UsedRight[]> {
  const found: UsedRight[] = [];
  for await (const { name } of Deno.readDir(directory)) {
    const text = await Deno.readTextFile(path.join(directory, name));
    found.push(...JSON.parse(text) as UsedRight[]);
  }
  return found;
}
