import type { Family } from "../../inet/mod.ts";
import type { FouPort, FouSocket } from "../../netlink/mod.ts";
import { NetlinkError } from "../../netlink/mod.ts";

/** IPPROTO_IPIP and IPPROTO_IPV6: a family is tunnelled in itself. */
const PROTOCOLS: Readonly<Record<Family, number>> = { ipv4: 4, ipv6: 41 };

/** The part of a FoU socket that is needed here. */
export type FouKernel = Pick<FouSocket, "add" | "delete" | "list">;

/** The port of each family on which the kernel unpacks tunnelled packets. */
export function fouPorts(
  families: readonly Family[],
  port: number,
): FouPort[] {
  return families.map((family) => fouPort(family, port));
}

/** The port of one family on which the kernel unpacks tunnelled packets. */
export function fouPort(family: Family, port: number): FouPort {
  return { family, port, protocol: PROTOCOLS[family] };
}

/** Whether both are the same port. */
export function sameFouPort(a: FouPort, b: FouPort): boolean {
  return a.family === b.family && a.port === b.port &&
    a.protocol === b.protocol;
}

/**
 * Adds the wanted ports but for those that are known to be present; one that
 * turns out to be there is fine. Returns what it did, one phrase each.
 */
export async function addFouPorts(
  kernel: FouKernel,
  ports: { readonly wanted: readonly FouPort[]; present: readonly FouPort[] },
): Promise<string[]> {
  const missing = ports.wanted.filter((wanted) => !isIn(ports.present, wanted));
  const added: string[] = [];
  for (const port of missing) {
    if (await addPort(kernel, port)) added.push(`add ${portText(port)}`);
  }
  return added;
}

function isIn(ports: readonly FouPort[], port: FouPort): boolean {
  return ports.some((each) => sameFouPort(each, port));
}

/** Removes ports; those that are gone already are not an error. Returns what it did. */
export async function removeFouPorts(
  kernel: FouKernel,
  ports: readonly FouPort[],
): Promise<string[]> {
  const removed: string[] = [];
  for (const port of ports) {
    try {
      await kernel.delete(port);
      removed.push(`delete ${portText(port)}`);
    } catch (error) {
      // The kernel refuses with EINVAL when it does not have the port.
      if (!(error instanceof NetlinkError) || error.code !== "EINVAL") {
        throw error;
      }
    }
  }
  return removed;
}

/** False when it is there already. */
async function addPort(kernel: FouKernel, port: FouPort): Promise<boolean> {
  try {
    await kernel.add(port);
    return true;
  } catch (cause) {
    if (!(cause instanceof NetlinkError) || cause.code !== "EADDRINUSE") {
      throw cause;
    }
    if (isIn(await kernel.list(), port)) return false;
    throw new Error(
      `Cannot receive on ${
        portText(port)
      }: another socket of this network namespace has the UDP port; stop its program, or choose another port for all of egress`,
      { cause },
    );
  }
}

/** The port's name in messages. */
export function portText({ family, port }: FouPort): string {
  return `${family} FoU port ${port}`;
}
