import assert from "node:assert/strict";
import { ERRNO } from "../../linux/mod.ts";
import { type Link, NetlinkError } from "../../netlink/mod.ts";
import { LinkRemoval, type LinkRemovalOptions } from "./link_removal.ts";

const FOUND = {
  link: { index: 7, name: "veth7" } as Link, // all that is looked at
  identity: { pool: "default", containerId: "c", ifname: "eth0" },
  state: "pod",
} as const;

/** Removes a link whose deletion the kernel answers with this error. */
async function removedWith(errno: number | undefined): Promise<string[]> {
  const done: string[] = [];
  const error = errno === undefined
    ? undefined
    : new NetlinkError("delete link 7", { errno });
  const removal = new LinkRemoval({
    deletions: {
      tryExecute: (requests: readonly unknown[]) => {
        done.push(`delete ${requests.length}`);
        return Promise.resolve([error]);
      },
    },
    finder: { forget: () => void done.push("forget link") },
    known: { forget: (index: number) => void done.push(`forget ${index}`) },
  } as unknown as LinkRemovalOptions); // all that is used
  await removal.remove(FOUND);
  return done;
}

Deno.test("LinkRemoval takes a link that is gone for removed, and throws what else the kernel says", async () => {
  const all = ["forget link", "forget 7", "delete 1"];
  assert.deepEqual(await removedWith(undefined), all);
  assert.deepEqual(await removedWith(ERRNO.ENODEV), all);
  await assert.rejects(removedWith(ERRNO.EBUSY), { code: "EBUSY" });
});
