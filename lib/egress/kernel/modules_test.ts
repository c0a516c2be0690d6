import assert from "node:assert/strict";
import { FAMILIES } from "../../inet/mod.ts";
import { ERRNO } from "../../linux/mod.ts";
import { FouUnsupportedError, NetlinkError } from "../../netlink/mod.ts";
import {
  exists,
  explainTunnelError,
  type KernelPorts,
  KernelPreparation,
} from "./modules.ts";

const { EINVAL, EOPNOTSUPP, EPERM } = ERRNO;

/** A machine in which modules are loaded, can be, or cannot. */
class Machine implements KernelPorts {
  readonly loaded: Set<string>;
  readonly log: string[] = [];
  /** What cannot be loaded, and why. */
  refusal: string | undefined;
  errno: number = EINVAL;
  builtIn = false;

  constructor(loaded: readonly string[]) {
    this.loaded = new Set(loaded);
  }

  isLoaded(module: string): boolean {
    return this.loaded.has(module);
  }

  probe(family: "ipv4" | "ipv6"): Promise<NetlinkError | undefined> {
    this.log.push(`probe ${family}`);
    const needs = family === "ipv4" ? ["fou", "ipip"] : ["fou6", "ip6_tunnel"];
    const works = this.builtIn || needs.every((each) => this.loaded.has(each));
    return Promise.resolve(
      works
        ? undefined
        : new NetlinkError("create tunnel", { errno: this.errno }),
    );
  }

  load(modules: readonly string[]): Promise<string | undefined> {
    this.log.push(`load ${modules.join(" ")}`);
    if (this.refusal === undefined) modules.forEach((m) => this.loaded.add(m));
    return Promise.resolve(this.refusal);
  }
}

Deno.test("prepare() does nothing where all modules are loaded", async () => {
  const machine = new Machine(["fou", "fou6", "ipip", "ip6_tunnel"]);
  await new KernelPreparation(machine).prepare(["ipv4", "ipv6"]);
  assert.deepEqual(machine.log, []);
});

Deno.test("prepare() looks once at a kernel in which all is built in", async () => {
  const machine = new Machine([]);
  machine.builtIn = true;
  const kernel = new KernelPreparation(machine);
  for (let n = 0; n < 2; n++) await kernel.prepare(["ipv4"]);
  assert.deepEqual(machine.log, ["probe ipv4"]);
});

Deno.test("W37: prepare() loads what is missing once, also for callers at the same time", async () => {
  const machine = new Machine(["fou"]);
  const kernel = new KernelPreparation(machine);
  await Promise.all([
    kernel.prepare(["ipv4", "ipv6"]),
    kernel.prepare(["ipv6", "ipv4"]),
  ]);
  await kernel.prepare(["ipv4"]);
  assert.deepEqual(machine.log, [
    "probe ipv4",
    "load ipip",
    "probe ipv4",
    "probe ipv6",
    "load fou6 ip6_tunnel",
    "probe ipv6",
  ]);
});

Deno.test("prepare() loads nothing where it is built in", async () => {
  const machine = new Machine([]);
  machine.builtIn = true;
  await new KernelPreparation(machine).prepare(["ipv4"]);
  assert.deepEqual(machine.log, ["probe ipv4"]);
});

Deno.test("prepare() tells what is missing and what to do when loading is not allowed", async () => {
  const machine = new Machine([]);
  machine.refusal = "Operation not permitted";
  const kernel = new KernelPreparation(machine);
  for (let attempt = 0; attempt < 2; attempt++) {
    await assert.rejects(kernel.prepare(["ipv6"]), (error: Error) => {
      assert.ok(error instanceof FouUnsupportedError);
      for (
        const part of [
          "Operation not permitted",
          '"fou6"',
          "CONFIG_NET_FOU",
          "/etc/modules-load.d",
        ]
      ) assert.ok(error.message.includes(part), error.message);
      return true;
    });
  }
  assert.equal(machine.log.filter((line) => line.startsWith("load")).length, 1);
  // Loaded by the administrator in between: no restart is needed.
  ["fou", "fou6", "ip6_tunnel"].forEach((each) => machine.loaded.add(each));
  await kernel.prepare(["ipv6"]);
});

Deno.test("prepare() names the options of a kernel that has what a family needs", async () => {
  const common = "CONFIG_NET_FOU, CONFIG_NET_FOU_IP_TUNNELS";
  const own = {
    ipv4: "CONFIG_NET_IPIP",
    ipv6: "CONFIG_IPV6_FOU_TUNNEL, CONFIG_IPV6_TUNNEL",
  };
  for (const family of FAMILIES) {
    const machine = new Machine([]);
    machine.refusal = "no";
    await assert.rejects(
      new KernelPreparation(machine).prepare([family]),
      ({ message }: Error) => message.endsWith(`${common}, ${own[family]}`),
    );
  }
});

Deno.test("prepare() throws what the kernel says when that is not about modules", async () => {
  const machine = new Machine([]);
  machine.refusal = "no";
  machine.errno = EPERM;
  await assert.rejects(
    new KernelPreparation(machine).prepare(["ipv4"]),
    { code: "EPERM" },
  );
});

Deno.test("explainTunnelError() explains only what comes of a kernel without FoU", () => {
  const plain = new NetlinkError("create ipip", { errno: EPERM });
  assert.equal(explainTunnelError(plain), plain);
  for (const errno of [EINVAL, EOPNOTSUPP]) {
    const error = new NetlinkError("create ipip", { errno });
    const explained = explainTunnelError(error);
    assert.ok(explained instanceof FouUnsupportedError);
    assert.equal(explained.cause, error);
  }
});

Deno.test("exists() tells what is not there from what cannot be looked for", async () => {
  assert.equal(exists("/proc/sys/net"), true);
  assert.equal(exists("/proc/sys/net/absent"), false);
  const path = await Deno.makeTempFile();
  assert.throws(() => exists(`${path}/below`), /Cannot look for/);
  await Deno.remove(path);
});
