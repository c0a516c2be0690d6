import assert from "node:assert/strict";
import { ERRNO } from "../../linux/mod.ts";
import { type FouPort, NetlinkError } from "../../netlink/mod.ts";
import {
  addFouPorts,
  type FouKernel,
  fouPorts,
  removeFouPorts,
  sameFouPort,
} from "./fou_ports.ts";

const { EADDRINUSE, EINVAL, EPERM } = ERRNO;
const BOTH = fouPorts(["ipv4", "ipv6"], 5555);

function kernelFailing(
  errno?: number,
  ports: FouPort[] = [],
): FouKernel & { readonly log: string[] } {
  const log: string[] = [];
  const act = (verb: string) => (port: FouPort): Promise<void> => {
    log.push(`${verb} ${port.family} ${port.port} ${port.protocol}`);
    return errno === undefined
      ? Promise.resolve()
      : Promise.reject(new NetlinkError("touch FoU port", { errno }));
  };
  const list = () => Promise.resolve(ports);
  return { log, list, add: act("add"), delete: act("delete") };
}

Deno.test("KN-8: addFouPorts() adds what is missing, each family with its protocol", async () => {
  const kernel = kernelFailing();
  assert.deepEqual(await addFouPorts(kernel, { wanted: BOTH, present: [] }), [
    "add ipv4 FoU port 5555",
    "add ipv6 FoU port 5555",
  ]);
  assert.deepEqual(kernel.log, ["add ipv4 5555 4", "add ipv6 5555 41"]);
  const idle = kernelFailing();
  assert.deepEqual(
    await addFouPorts(idle, { wanted: BOTH, present: BOTH }),
    [],
  );
  assert.deepEqual(idle.log, []);
});

Deno.test("addFouPorts() says so when another socket has the port", async () => {
  await assert.rejects(
    addFouPorts(kernelFailing(EADDRINUSE), { wanted: BOTH, present: [] }),
    /Cannot receive on ipv4 FoU port 5555: another socket/,
  );
});

Deno.test("addFouPorts() hands on what the kernel refuses otherwise", async () => {
  await assert.rejects(
    addFouPorts(kernelFailing(EPERM, BOTH), { wanted: BOTH, present: [] }),
    { code: "EPERM" },
  );
});

Deno.test("sameFouPort() compares all that makes a port", () => {
  const [port] = BOTH;
  assert.ok(port);
  assert.ok(sameFouPort(port, { ...port }));
  const changes = [{ family: "ipv6" as const }, { port: 1 }, { protocol: 1 }];
  for (const change of changes) {
    assert.ok(!sameFouPort(port, { ...port, ...change }));
    assert.ok(!sameFouPort({ ...port, ...change }, port));
  }
});

Deno.test("addFouPorts() is content with a port that is there already", async () => {
  const kernel = kernelFailing(EADDRINUSE, BOTH);
  const ports = { wanted: BOTH, present: [] };
  assert.deepEqual(await addFouPorts(kernel, ports), []);
});

Deno.test("removeFouPorts() is content with what is gone", async () => {
  assert.deepEqual(await removeFouPorts(kernelFailing(), BOTH), [
    "delete ipv4 FoU port 5555",
    "delete ipv6 FoU port 5555",
  ]);
  assert.deepEqual(await removeFouPorts(kernelFailing(EINVAL), BOTH), []);
  await assert.rejects(removeFouPorts(kernelFailing(EADDRINUSE), BOTH));
});
