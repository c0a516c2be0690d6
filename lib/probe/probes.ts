import type { Address } from "../inet/mod.ts";
import { arpRequest, parseArp } from "./arp.ts";
import { exchange, type ProbeLink, type ProbeTimes, send } from "./exchange.ts";
import { parseNdp, solicitation, unsolicitedAdvertisement } from "./ndp.ts";

/**
 * The MAC address of another machine that has an address, or that asks for it
 * at this moment, the conflicts of RFC 5227 and RFC 4862; undefined when
 * there is none until the end. The question does not announce the address.
 *
 * @throws {LinuxError} when the link is down or gone
 */
export async function findConflict(
  link: ProbeLink,
  address: Address,
  times: ProbeTimes,
): Promise<string | undefined> {
  const { mac } = link;
  const { family } = address;
  const ask = family === "ipv4" ? arpRequest : solicitation;
  return await exchange(link, {
    about: address,
    question: ask({ mac, target: address }),
    isAnswer: (frame) => {
      const owner = family === "ipv4"
        ? arpClaimant(frame, address)
        : ndpClaimant(frame, address);
      return owner === mac ? undefined : owner;
    },
    times,
  });
}

/**
 * Whether a gateway answers. `source` is an address of the link, which the
 * question reveals to the network.
 *
 * @throws {LinuxError} when the link is down or gone
 */
export async function answers(
  link: ProbeLink,
  { gateway, source }: { readonly gateway: Address; readonly source: Address },
  times: ProbeTimes,
): Promise<boolean> {
  const { mac } = link;
  const { family } = gateway;
  const ask = family === "ipv4"
    ? arpRequest({ mac, sender: source, target: gateway })
    : solicitation({ mac, source, target: gateway });
  const found = await exchange(link, {
    about: gateway,
    question: ask,
    isAnswer: (frame) => {
      const owner = family === "ipv4"
        ? arpOwner(frame, gateway)
        : ndpOwner(frame, gateway);
      return owner === mac ? undefined : owner;
    },
    times,
  });
  return found !== undefined;
}

/** Announces the link's MAC address for an address to the network. @throws {LinuxError} when the link is down or gone */
export async function announce(
  link: ProbeLink,
  address: Address,
  times: Pick<ProbeTimes, "retries" | "intervalMs">,
): Promise<void> {
  const { mac } = link;
  const { family } = address;
  const frame = family === "ipv4"
    ? arpRequest({ mac, sender: address, target: address })
    : unsolicitedAdvertisement({ mac, address });
  await send(link, { about: address, frame, times });
}

/** The MAC address of the sender, if it sends as the address in any ARP message. */
function arpOwner(frame: Uint8Array, address: Address): string | undefined {
  const packet = parseArp(frame);
  return packet?.sender.equals(address) ? packet.senderMac : undefined;
}

/** As {@linkcode arpOwner}, and also of a machine that probes for the address. */
function arpClaimant(frame: Uint8Array, address: Address): string | undefined {
  const packet = parseArp(frame);
  const isProbe = packet?.sender.value === 0n && packet.target.equals(address);
  return isProbe ? packet.senderMac : arpOwner(frame, address);
}

function ndpOwner(frame: Uint8Array, address: Address): string | undefined {
  const message = parseNdp(frame);
  const isOwner = message?.kind === "advertisement" &&
    message.target.equals(address);
  return isOwner ? message.mac : undefined;
}

/** As {@linkcode ndpOwner}, and who probes for it. */
function ndpClaimant(frame: Uint8Array, address: Address): string | undefined {
  const message = parseNdp(frame);
  const isProbe = message?.kind === "solicitation" &&
    message.source.value === 0n && message.target.equals(address);
  return isProbe ? message.mac : ndpOwner(frame, address);
}
