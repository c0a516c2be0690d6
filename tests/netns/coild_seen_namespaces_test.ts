import assert from "node:assert/strict";
import { Netns } from "../../lib/linux/mod.ts";
import type { Attachment } from "../../roles/coild/calls/attachment.ts";
import { SeenNamespaces } from "../../roles/coild/egress/seen_namespaces.ts";
import { netnsTest, run, tempNetns } from "./testing.ts";

/** A pod whose interface is looked for in these namespaces, one after the other. */
function podIn(paths: readonly (string | undefined)[]) {
  let looks = 0;
  const attachment: Attachment = {
    key: { containerId: "c", ifname: "eth0" },
    pod: { namespace: "team", name: "p" },
    uid: "u",
    addresses: {},
    async openNetns() {
      const path = paths[looks++];
      return path === undefined ? undefined : Netns.open(path);
    },
  };
  return { attachment, looks: () => looks };
}

netnsTest(
  "Netns.cookie is another one for each namespace, for ever",
  async () => {
    await using one = await tempNetns();
    using first = Netns.open(one.path);
    using again = Netns.open(one.path);
    assert.ok((first.cookie ?? 0n) > 0n);
    assert.equal(again.cookie, first.cookie);
    await run("ip", ["netns", "delete", one.name]);
    await run("ip", ["netns", "add", one.name]);
    using other = Netns.open(one.path);
    // Each processor gives out numbers of its own.
    assert.notEqual(other.cookie ?? first.cookie, first.cookie);
  },
);

netnsTest(
  "SeenNamespaces looks for a pod's interface once, and again when its namespace is another one, or gone",
  async () => {
    await using seen = await tempNetns();
    await using moved = await tempNetns();
    const { attachment, looks } = podIn([seen.path, moved.path]);
    const namespaces = new SeenNamespaces();
    const open = async () => {
      using netns = await namespaces.open(attachment);
      return [netns?.path, looks()];
    };
    assert.deepEqual(await open(), [seen.path, 1]);
    assert.deepEqual(await open(), [seen.path, 1]);
    await run("ip", ["netns", "delete", seen.name]);
    await run("ip", ["netns", "add", seen.name]);
    assert.deepEqual(await open(), [moved.path, 2]);
    namespaces.forget(attachment.key);
    assert.deepEqual(await open(), [undefined, 3]);
    using netns = Netns.open(moved.path);
    namespaces.note(attachment.key, netns);
    assert.deepEqual(await open(), [moved.path, 3]);
    await moved[Symbol.asyncDispose]();
    assert.deepEqual(await open(), [undefined, 4]);
  },
);
