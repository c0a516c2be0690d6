import { codeOf } from "../errors/mod.ts";
import type { Family } from "../inet/mod.ts";
import { inNetnsOrHere, type Netns } from "./netns.ts";

/** Which namespace a network sysctl is meant for; without one, the process's own. */
export interface SysctlOptions {
  /** The namespace. */
  readonly netns?: Netns | undefined;
}

/** The sysctls that let a network namespace forward. */
export const FORWARDING: Readonly<Record<Family, string>> = {
  ipv4: "net/ipv4/ip_forward",
  ipv6: "net/ipv6/conf/all/forwarding",
};

const ROOT = "/proc/sys";

/**
 * Where a container that is not privileged may have a writable `/proc/sys/net`
 * of the host: its own is read-only. What is in that directory depends on the
 * network namespace of the thread that looks (the kernel's net_ctl_header_lookup()
 * in net/sysctl_net.c), so it leads to this process's sysctls all the same, and
 * CAP_NET_ADMIN in that namespace suffices to write them (net_ctl_permissions()).
 */
const WRITABLE_ROOT = "/host/proc/sys";

/**
 * Writes a sysctl, such as `net/ipv6/conf/all/forwarding`. Slashes separate
 * the parts, so that interface names with dots need no quoting. Where
 * `/proc/sys` is read-only, `/host/proc/sys` is tried too.
 *
 * @throws {Deno.errors.NotFound} when this kernel has no such sysctl
 * @throws {SyntaxError} when the name is not one
 */
export function writeSysctl(
  name: string,
  value: string | number,
  options: SysctlOptions = {},
): void {
  assertName(name);
  inNetnsOrHere(options.netns, () => write(name, String(value)));
}

/** Reads a sysctl, without the newline at its end. Throws as `writeSysctl()` does. */
export function readSysctl(name: string, options: SysctlOptions = {}): string {
  assertName(name);
  const read = () => Deno.readTextFileSync(`${ROOT}/${name}`);
  return inNetnsOrHere(options.netns, read).trimEnd();
}

/** The same; undefined where this kernel has no such sysctl, or the namespace no such link. */
export function tryReadSysctl(
  name: string,
  options: SysctlOptions = {},
): string | undefined {
  try {
    return readSysctl(name, options);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

function write(name: string, value: string): void {
  try {
    Deno.writeTextFileSync(`${ROOT}/${name}`, value, { create: false });
  } catch (error) {
    // Deno has no class for it.
    if (codeOf(error) !== "EROFS") throw error;
    try {
      Deno.writeTextFileSync(`${WRITABLE_ROOT}/${name}`, value, {
        create: false,
      });
    } catch (other) {
      // Not mounted: the first error says what is the matter.
      throw other instanceof Deno.errors.NotFound ? error : other;
    }
  }
}

function assertName(name: string): void {
  const parts = name.split("/");
  if (parts.some((part) => part === "" || part === "." || part === "..")) {
    throw new SyntaxError(`Cannot use sysctl "${name}": not a sysctl's name`);
  }
}
