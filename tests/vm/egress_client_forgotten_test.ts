// Connections of a client's own that its kernel has forgotten, and packets of
// theirs that come late.
import assert from "node:assert/strict";
import { FAMILIES, type Family } from "../../lib/inet/mod.ts";
import {
  type ClientLab,
  clientLab,
  connectOutside,
  directGatewayFor,
  EVERYWHERE,
  forgetTcp,
  gatewayFor,
  type OutsideConnection,
  send,
} from "./egress_client_lab.ts";
import { ADDRESSES, shell } from "./egress_server_lab.ts";

/** Whose connections are tracked. */
const CLIENTS = {
  "in originating-only mode": [gatewayFor(EVERYWHERE), true],
  "that chooses its gateway": [directGatewayFor(EVERYWHERE), false],
  "that chooses its gateway in originating-only mode": [
    directGatewayFor(EVERYWHERE),
    true,
  ],
} as const;

for (const [kind, [egress, originatingOnly]] of Object.entries(CLIENTS)) {
  for (const family of FAMILIES) {
    Deno.test(`what comes late for a forgotten connection of a client ${kind} is answered through the tunnel, ${family}`, async () => {
      await using lab = await clientLab();
      await lab.apply([egress], { originatingOnly });
      await shell(lab.client, COUNT_LEAVING);
      await expectToGoOn(lab, family);
      await expectReset(lab, family);
      const seen = await shell(lab.client, "nft list table inet leaving");
      assert.match(seen, /packets 0 bytes 0/);
    });
  }
}

/** TCP that leaves as it is. */
const COUNT_LEAVING = `nft -f - <<END
table inet leaving {
  chain postrouting {
    type filter hook postrouting priority 0
    oifname eth0 meta l4proto tcp counter
  }
}
END`;

/** A connection through the gateway that the client's kernel has just forgotten. */
async function forgottenConnection(
  lab: ClientLab,
  family: Family,
): Promise<OutsideConnection> {
  using stack = new DisposableStack();
  const connection = stack.use(await connectOutside(lab, family));
  const { client, outside } = connection;
  assert.equal(outside.remoteAddr.hostname, ADDRESSES.gateway[family]);
  await send(client, outside);
  assert.ok(await forgetTcp(lab) > 0);
  stack.move();
  return connection;
}

/** The other end speaks first: the kernel takes it for the one that began. */
async function expectToGoOn(lab: ClientLab, family: Family): Promise<void> {
  using connection = await forgottenConnection(lab, family);
  const { client, outside } = connection;
  await send(outside, client);
  await send(client, outside);
}

/** A program goes while its gateway is away: the other end learns that later, when it sends its last byte again. */
async function expectReset(lab: ClientLab, family: Family): Promise<void> {
  using connection = await forgottenConnection(lab, family);
  const { client, outside } = connection;
  // What it has not read makes the kernel of the client say that it is gone, and forget it.
  await outside.write(new Uint8Array(2));
  assert.equal(await client.read(new Uint8Array(1)), 1);
  const { gateway } = lab.lab;
  await shell(
    gateway,
    "nft 'add table inet away; add chain inet away in { type filter hook prerouting priority -400; policy drop; }'",
  );
  client.close();
  await outside.write(new Uint8Array(1));
  await forgetTcp(lab);
  await shell(gateway, "nft delete table inet away");
  await assert.rejects(
    async () => {
      while (await outside.read(new Uint8Array(8)) !== null);
    },
    Deno.errors.ConnectionReset,
  );
}
