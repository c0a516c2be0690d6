import assert from "node:assert/strict";
import type { Netns } from "../../linux/mod.ts";
import type { Link } from "../../netlink/mod.ts";
import { FakeNetwork, linkOf } from "../testing.ts";
import { conflictLink } from "./conflict_link.ts";

const [IN_POD, PARENT] = [3, 8] as const;
const hostNetns = {} as Netns; // handed on
const LINK = { index: IN_POD, mac: "02:00:00:00:00:01" };
const BY_PARENT = { netns: hostNetns, index: PARENT, mac: LINK.mac };

/** The link that asks for an address of a pod's interface, of which the kernel shows that. */
async function asking(
  inPod: Partial<Link>,
  { onHost = {}, family = "ipv4" }: {
    readonly onHost?: Partial<Link>;
    readonly family?: "ipv4" | "ipv6";
  } = {},
) {
  const pod = new FakeNetwork({ links: [linkOf(IN_POD, inPod)] });
  const host = new FakeNetwork({ links: [linkOf(PARENT, onHost)] });
  return await conflictLink({ pod, host, hostNetns }, LINK, family);
}

Deno.test("conflictLink() asks for an IPv4 address of an ipvlan by its parent", async () => {
  const ipvlan = { kind: "ipvlan", peerIndex: PARENT };
  assert.deepEqual(await asking(ipvlan), BY_PARENT);
  assert.equal(await asking(ipvlan, { family: "ipv6" }), LINK);
});

Deno.test("conflictLink() asks by the interface itself where it is not an ipvlan, or its parent is not on the host", async () => {
  assert.equal(await asking({ kind: "macvlan", peerIndex: PARENT }), LINK);
  assert.equal(await asking({ kind: "ipvlan" }), LINK);
  const elsewhere = { kind: "ipvlan", peerIndex: PARENT + 1 };
  assert.equal(await asking(elsewhere), LINK);
  const ipvlan = { kind: "ipvlan", peerIndex: PARENT };
  const onHost = { mac: "02:00:00:00:00:02" };
  assert.equal(await asking(ipvlan, { onHost }), LINK);
});
