import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import { Netns, openLibc } from "../../../lib/linux/mod.ts";
import type { Attachment } from "../calls/attachment.ts";
import { ConnectionEndings } from "./endings.ts";
import { SeenNamespaces } from "./seen_namespaces.ts";

openLibc(); // stays open, so it must not be counted as a test's leak

const GATEWAY = Address.parse("10.64.0.9");

function attachment(containerId: string): Attachment {
  return {
    key: { containerId, ifname: "eth0" },
    pod: { namespace: "team", name: containerId },
    addresses: {},
    openNetns: () => Promise.resolve(Netns.current()),
  };
}

Deno.test("ConnectionEndings.end() asks no more of a pod while a program of it holds the kernel up", async () => {
  using netns = Netns.current();
  const { promise, resolve } = Promise.withResolvers<void>();
  const held = promise.then(() => {});
  let asked = 0;
  const reported: boolean[] = [];
  const endings = new ConnectionEndings({
    plane: {
      endConnections: async () => {
        asked++;
        return asked === 1
          ? { aborted: 0, forgotten: 1, held }
          : { aborted: 1, forgotten: 1 };
      },
    },
    onEnded: (ended) => void reported.push(ended.held !== undefined),
    onSwitched: () => {},
  }, new SeenNamespaces());
  const { signal } = new AbortController();
  const end = (pod: string) =>
    endings.end(attachment(pod), [GATEWAY], { netns, signal });
  await end("a");
  await end("a");
  assert.deepEqual(reported, [true]);
  await end("b");
  assert.deepEqual(reported, [true, false]);
  resolve();
  await held;
  await end("a");
  assert.deepEqual(reported, [true, false, false]);
});
