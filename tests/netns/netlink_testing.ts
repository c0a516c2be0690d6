import { Netns } from "../../lib/linux/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import type { TempNetns } from "./testing.ts";

/** A socket in the namespace. */
export function openIn(temp: TempNetns): RouteSocket {
  using netns = Netns.open(temp.path);
  return RouteSocket.open({ netns });
}
