// KN-8: Foo-over-UDP ports, with `ip fou show` as the oracle.
import assert from "node:assert/strict";
import { Netns, openLibc } from "../../lib/linux/mod.ts";
import {
  type FouPort,
  FouSocket,
  NetlinkError,
} from "../../lib/netlink/mod.ts";
import { netnsTest, type TempNetns, tempNetns } from "../netns/testing.ts";

openLibc();

const PORT = 5555;
const IPV4: FouPort = { family: "ipv4", port: PORT, protocol: 4 };
const IPV6: FouPort = { family: "ipv6", port: PORT, protocol: 41 };

function openIn(temp: TempNetns): FouSocket {
  using netns = Netns.open(temp.path);
  return FouSocket.open({ netns });
}

/** What `ip fou show` prints, a line for each port. */
async function shown(temp: TempNetns): Promise<string[]> {
  const text = await temp.ip("fou", "show");
  return text.split("\n").map((line) => line.trim()).filter((line) =>
    line !== ""
  ).sort();
}

function sorted(ports: readonly FouPort[]): FouPort[] {
  return ports.toSorted((a, b) => a.family.localeCompare(b.family));
}

const SETS: readonly (readonly [string, readonly FouPort[], string[]])[] = [
  ["both families", [IPV4, IPV6], [
    "port 5555 ipproto 4",
    "port 5555 ipproto 41 -6",
  ]],
  ["IPv4", [IPV4], ["port 5555 ipproto 4"]],
  ["IPv6", [IPV6], ["port 5555 ipproto 41 -6"]],
];

for (const [name, ports, lines] of SETS) {
  netnsTest(`KN-8: the ports of ${name} come, are told and go`, async () => {
    await using temp = await tempNetns();
    await using other = await tempNetns();
    using socket = openIn(temp);
    assert.deepEqual(await socket.list(), []);
    await Promise.all(ports.map((port) => socket.add(port)));
    assert.deepEqual(sorted(await socket.list()), ports);
    assert.deepEqual(await shown(temp), lines);
    assert.deepEqual(await shown(other), []);
    for (const port of ports) {
      await refused(socket.add(port), "EADDRINUSE");
    }
    assert.deepEqual(await shown(temp), lines);

    for (const port of ports) await socket.delete(port);
    assert.deepEqual(await shown(temp), []);
    assert.deepEqual(await socket.list(), []);
    for (const port of ports) {
      await refused(socket.delete(port), "EINVAL");
    }
  });
}

netnsTest("list() tells what ip made, but for GUE", async () => {
  await using temp = await tempNetns();
  using socket = openIn(temp);
  await temp.ip("fou", "add", "port", "5556", "ipproto", "4");
  await temp.ip("fou", "add", "port", "5557", "gue");
  assert.deepEqual(await socket.list(), [{ ...IPV4, port: 5556 }]);
});

netnsTest("a port unpacks one protocol only", async () => {
  await using temp = await tempNetns();
  using socket = openIn(temp);
  await temp.ip("fou", "add", "port", String(PORT), "gue");
  await refused(socket.add(IPV4), "EADDRINUSE");
  await socket.add(IPV6);
  await refused(socket.add({ ...IPV6, protocol: 4 }), "EADDRINUSE");
  assert.deepEqual(await socket.list(), [IPV6]);
});

async function refused(done: Promise<void>, code: string): Promise<void> {
  await assert.rejects(
    done,
    (error) => error instanceof NetlinkError && error.code === code,
  );
}
