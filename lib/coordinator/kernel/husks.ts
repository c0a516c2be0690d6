import { type Link, linkDelete, linkSet } from "../../netlink/mod.ts";
import { COORDINATOR_PROTOCOL } from "../../names/mod.ts";
import type { Outside, Routes } from "./ports.ts";
import { remove, routeRemoval, throwRefusal } from "./remove.ts";
import {
  type CoordinatorHusk,
  formerPairOf,
  huskAlias,
  pairOf,
} from "../plan/veth.ts";

/** The husk that a link is; undefined for other links. */
export function huskOf(link: Link): CoordinatorHusk | undefined {
  const key = formerPairOf(link);
  return key && { ...key, index: link.index };
}

/**
 * Makes a husk of the host's end of a pair, in one send: its routes go, and its
 * alias says what it is. Deleting it would wait for a grace period of the
 * kernel. Undefined when the link went in the meantime.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function cutOff(
  host: Routes,
  pair: Link,
): Promise<CoordinatorHusk | undefined> {
  const key = pairOf(pair);
  if (key === undefined) return undefined;
  const { index } = pair;
  const routes = await host.listRoutes({
    protocol: COORDINATOR_PROTOCOL,
    keep: (route) => route.index === index,
  });
  const mark = linkSet({ index }, { alias: huskAlias(key) });
  const [gone, ...errors] = await host.tryExecute([
    mark,
    ...routes.map(routeRemoval),
  ]);
  if (gone?.isAbsent) return undefined;
  throwRefusal([gone, ...errors]);
  return { ...key, index };
}

/**
 * Deletes a husk, unless it is gone or another link has its index.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function deleteHusk(
  host: Routes,
  { index }: CoordinatorHusk,
): Promise<void> {
  const link = await host.getLink({ index });
  if (link === undefined || huskOf(link) === undefined) return;
  await remove(host, [linkDelete({ index })]);
}

/** Deletes the husks that an earlier coild, or a call that was killed, has left. */
export async function discardHusks(
  { discard }: Pick<Outside, "discard">,
  links: readonly Link[],
): Promise<void> {
  await Promise.all(links.flatMap((link) => {
    const husk = huskOf(link);
    return husk === undefined ? [] : [discard(husk)];
  }));
}
