import { inNetns, type Netns } from "./netns.ts";

/** Which namespace a network sysctl is meant for; without one, the process's own. */
export interface SysctlOptions {
  /** The namespace. */
  readonly netns?: Netns;
}

/**
 * Writes a sysctl, such as `net/ipv6/conf/all/forwarding`. Slashes separate
 * the parts, so that interface names with dots need no quoting.
 *
 * @throws {Deno.errors.NotFound} when this kernel has no such sysctl
 * @throws {SyntaxError} when the name is not one
 */
export function writeSysctl(
  name: string,
  value: string | number,
  options: SysctlOptions = {},
): void {
  const path = sysctlPath(name);
  within(
    options.netns,
    () => Deno.writeTextFileSync(path, String(value), { create: false }),
  );
}

/** Reads a sysctl, without the newline at its end. Throws as `writeSysctl()` does. */
export function readSysctl(name: string, options: SysctlOptions = {}): string {
  const path = sysctlPath(name);
  return within(options.netns, () => Deno.readTextFileSync(path)).trimEnd();
}

function within<T>(netns: Netns | undefined, fn: () => T): T {
  return netns === undefined ? fn() : inNetns(netns, fn);
}

function sysctlPath(name: string): string {
  const parts = name.split("/");
  if (parts.some((part) => part === "" || part === "." || part === "..")) {
    throw new SyntaxError(`Cannot use sysctl "${name}": not a sysctl's name`);
  }
  return `/proc/sys/${name}`;
}
