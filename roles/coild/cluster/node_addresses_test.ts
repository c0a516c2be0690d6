import assert from "node:assert/strict";
import { sleep, TaskGroup } from "../../../lib/async/mod.ts";
import { settle } from "../../../lib/async/testing.ts";
import { Address, type DualStack } from "../../../lib/inet/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import { NodeAddressFollower } from "./node_addresses.ts";
import type { NodeSource } from "./node_source.ts";

Deno.test("the Node's addresses go into the routes of pods when they change, and again when that failed", async () => {
  let onNode = () => {};
  let addresses: DualStack<Address> = { ipv4: Address.parse("192.0.2.1") };
  const done: string[] = [];
  let isBroken = false;
  const node = {
    name: "n1",
    synced: Promise.resolve(),
    get addresses() {
      return addresses;
    },
    subscribe(listener: () => void) {
      onNode = listener;
      return { [Symbol.dispose]() {} };
    },
  } as unknown as NodeSource;
  const network = {
    setNodeAddresses: ({ ipv4 }: DualStack<Address>) =>
      void done.push(`set ${ipv4}`),
    refreshRoutes: () => {
      done.push("refresh");
      return isBroken ? Promise.reject(new Error("no")) : Promise.resolve(1);
    },
  } as unknown as PodNetwork;
  const follower = new NodeAddressFollower(node, network, { retryMs: 10 });
  const waitFor = async (count: number) => {
    for (let turn = 0; turn < 400 && done.length < count; turn++) {
      await sleep(10);
    }
    await settle();
  };
  follower.publish();
  assert.deepEqual(done, ["set 192.0.2.1"]);
  {
    await using group = new TaskGroup();
    group.run("addresses", (signal) => follower.run(signal));
    await waitFor(3);
    assert.deepEqual(done.splice(0), [
      "set 192.0.2.1",
      "set 192.0.2.1",
      "refresh",
    ]);
    onNode();
    await waitFor(1);
    assert.deepEqual(done.splice(0), ["set 192.0.2.1"]);
    isBroken = true;
    addresses = { ipv4: Address.parse("192.0.2.2") };
    onNode();
    await waitFor(2);
    isBroken = false;
    await waitFor(4);
    assert.deepEqual(done, [
      "set 192.0.2.2",
      "refresh",
      "set 192.0.2.2",
      "refresh",
    ]);
  }
});
