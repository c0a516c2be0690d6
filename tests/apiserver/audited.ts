/** What a user has asked the API server for, by its audit log. */
import { type ControlPlane, eventually } from "../lab/mod.ts";

/** So long nothing is asked for when nothing is left to do. */
const QUIET_MS = 3_000;
const LIST = "list ";

/** Requests that were answered, but for watches: `<verb> <URI>`. */
export async function requestsOf(
  plane: ControlPlane,
  filter: { readonly user: string; readonly since: Date },
): Promise<string[]> {
  return (await plane.auditRequests(filter))
    .filter(({ verb, stage }) =>
      verb !== "watch" && stage !== "ResponseStarted"
    )
    .map(({ verb, uri }) => `${verb} ${uri}`);
}

/** Waits until a user has asked for nothing for a while; returns the time by then. */
export async function untilQuiet(
  plane: ControlPlane,
  user: string,
): Promise<Date> {
  const startMs = Date.now();
  return await eventually(`no request of ${user}`, async () => {
    const now = new Date();
    const since = new Date(Math.max(startMs, now.getTime() - QUIET_MS));
    if (now.getTime() - startMs < QUIET_MS) return false;
    return (await requestsOf(plane, { user, since })).length === 0 && now;
  }, { intervalMs: 200 });
}

/**
 * The collections that a user has read, each once: `list` or `watch`, the path,
 * and the selectors. A watch may have begun with all objects.
 */
export async function collectionsOf(
  plane: ControlPlane,
  filter: { readonly user: string; readonly since?: Date },
): Promise<string[]> {
  const lines = (await plane.auditRequests(filter))
    .filter(({ verb }) => verb === "list" || verb === "watch")
    .map(({ verb, uri }) => `${verb} ${collectionOf(uri)}`);
  return [...new Set(lines)].sort();
}

/** Each list of a user that was answered, as often as it was made: the path, and the selectors. */
export async function listsOf(
  plane: ControlPlane,
  filter: { readonly user: string; readonly since: Date },
): Promise<string[]> {
  return (await requestsOf(plane, filter))
    .filter((line) => line.startsWith(LIST))
    .map((line) => collectionOf(line.slice(LIST.length)))
    .sort();
}

/** `/api/v1/pods spec.nodeName=node1`. */
function collectionOf(uri: string): string {
  const { pathname, searchParams } = new URL(uri, "https://server");
  const selectors = ["fieldSelector", "labelSelector"]
    .flatMap((name) => searchParams.get(name) ?? []);
  return [pathname, ...selectors].join(" ");
}
