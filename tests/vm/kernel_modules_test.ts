// What happens where the kernel's modules are not loaded, or may not be.
import assert from "node:assert/strict";
import { Netns, openLibc } from "../../lib/linux/mod.ts";
import {
  type FouPort,
  FouSocket,
  FouUnsupportedError,
} from "../../lib/netlink/mod.ts";
import { run, tempNetns } from "../netns/testing.ts";
import {
  isLoaded,
  kernelWithoutTunnels,
  unloadTunnels,
} from "./kernel_modules.ts";

openLibc(); // stays open, so it must not be counted as the test's leak

/** Calls `prepareKernel()` in a fresh process, since a process does so once, and prints what came of it. */
const PROGRAM = `
import { prepareKernel } from "./lib/egress/mod.ts";
try {
  await prepareKernel(["ipv4", "ipv6"]);
  console.log("ready");
} catch (error) {
  console.log(error.name + ": " + error.message);
}`;

async function prepare(...prefix: string[]): Promise<string> {
  const [program = "", ...args] = [
    ...prefix,
    ...[Deno.execPath(), "eval", "--no-check", "--ext=ts", PROGRAM],
  ];
  return (await run(program, args)).trim();
}

/** A container without CAP_SYS_MODULE. */
const WITHOUT_CAPABILITY = [
  ...["setpriv", "--bounding-set=-sys_module", "--inh-caps=-sys_module"],
];

/** What a process sees that came after kernel.modules_disabled was set, which holds until the machine's next boot. */
const MODULES_DISABLED = [
  ...["unshare", "--mount", "sh", "-ec"],
  'echo 1 >/run/one; mount --bind /run/one /proc/sys/kernel/modules_disabled; exec "$@"',
  ...["sh", ...WITHOUT_CAPABILITY],
];

Deno.test("W37: prepareKernel() loads the modules that are missing", async () => {
  await using _unloaded = await unloadTunnels();
  assert.equal(await isLoaded("fou6"), false);
  assert.equal(await prepare(), "ready");
  for (const module of ["ipip", "ip6_tunnel", "fou", "fou6"] as const) {
    assert.equal(await isLoaded(module), true, module);
  }
});

const FORBIDDEN = [
  {
    name: "its container may not load modules",
    prefix: WITHOUT_CAPABILITY,
    reason: /Operation not permitted/,
  },
  {
    name: "loading modules is forbidden until the next boot",
    prefix: MODULES_DISABLED,
    reason: /sysctl "kernel.modules_disabled"/,
  },
];

for (const { name, prefix, reason } of FORBIDDEN) {
  Deno.test(`prepareKernel() says what to do where ${name}`, async () => {
    await using _unloaded = await unloadTunnels();
    const said = await prepare(...prefix);
    assert.match(said, /^FouUnsupportedError: Cannot use ipv4 Foo-over-UDP/);
    assert.match(said, /"fou".* could not be loaded: .*modules-load\.d/s);
    assert.match(said, reason);
    assert.equal(await isLoaded("fou"), false);
  });
}

Deno.test("prepareKernel() names the kernel's options where it was built without tunnels", async () => {
  await using kernel = await kernelWithoutTunnels();
  const said = await prepare();
  assert.match(said, /^FouUnsupportedError: Cannot use ipv4 Foo-over-UDP/);
  assert.match(said, /Module fou not found .*CONFIG_NET_FOU_IP_TUNNELS/s);
  await kernel.repair();
  assert.equal(await prepare(), "ready");
});

Deno.test("a FoU socket outlives its module", async () => {
  const port: FouPort = { family: "ipv4", port: 5555, protocol: 4 };
  await using temp = await tempNetns("modules");
  using netns = Netns.open(temp.path);
  using socket = FouSocket.open({ netns });
  await socket.add(port);
  {
    await using _unloaded = await unloadTunnels();
    await assert.rejects(socket.list(), FouUnsupportedError);
  }
  // Its messages have another number now, and the port went with the module.
  assert.deepEqual(await socket.list(), []);
  await socket.add(port);
  assert.deepEqual(await socket.list(), [port]);
});
