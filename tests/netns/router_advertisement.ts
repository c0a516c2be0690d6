/**
 * Router advertisements (RFC 4861) as a router sends them, for tests.
 *
 * @module
 */
import { concatenate } from "../../lib/bytes/mod.ts";
import { Address, type Prefix } from "../../lib/inet/mod.ts";
import { ETH_P_IPV6, Netns, openPacketSocket } from "../../lib/linux/mod.ts";
import { macBytes } from "../../lib/probe/ethernet.ts";
import { frame } from "../../lib/probe/ndp.ts";
import type { TempNetns } from "./testing.ts";

const ALL_NODES = Address.parse("ff02::1");
/** On-link, and for addresses that machines give themselves (RFC 4861, 4.6.2). */
const PREFIX_FLAGS = 0xc0;

/**
 * Sends one by a link: machines give themselves an address of the prefix, and
 * take the sender for their default router.
 */
export async function advertise(
  router: TempNetns,
  device: string,
  prefix: Prefix,
): Promise<void> {
  const [row] = await router.ipJson("link", "show", device);
  const mac = String(row?.["address"]);
  // An address that is still checked does not answer who asks for it.
  const text = await router.ip(
    ...["-6", "address", "show", "dev", device],
    "-tentative",
  );
  const source = Address.parse(/inet6 (fe80::[^/]+)/.exec(text)?.[1] ?? "");
  const body = concatenate([
    // Type 134; hop limit 64; a router for 1800 s.
    Uint8Array.of(134, 0, 0, 0, 64, 0, 1800 >> 8, 1800 & 0xff),
    new Uint8Array(8),
    // The sender's MAC address, and the prefix, valid for an hour.
    concatenate([Uint8Array.of(1, 1), macBytes(mac)]),
    Uint8Array.of(3, 4, prefix.length, PREFIX_FLAGS),
    Uint8Array.of(0, 0, 3600 >> 8, 3600 & 0xff),
    Uint8Array.of(0, 0, 1800 >> 8, 1800 & 0xff, 0, 0, 0, 0),
    prefix.address.toBytes(),
  ]);
  using netns = Netns.open(router.path);
  await using socket = openPacketSocket({
    netns,
    index: Number(row?.["ifindex"]),
    protocol: ETH_P_IPV6,
  });
  socket.sendNow(
    frame({ mac, source, destination: ALL_NODES, body }),
  );
}
