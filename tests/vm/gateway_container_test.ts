// W48: tunnels, filters, routes and sysctls of gateways and of their clients,
// made with the capabilities that their containers have, and no more.
import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { containedBy, holdHostMountPoint } from "../lab/host_mount.ts";
import { ADDRESSES, egressLab } from "./egress_server_lab.ts";

const program = (path: string) => new URL(path, import.meta.url).pathname;

/** Runs a program of ours in a container's mounts, with these capabilities and user 0. */
async function contained(
  [file, ...args]: readonly [string, ...string[]],
  { capabilities, netns }: {
    readonly capabilities: readonly string[];
    readonly netns?: string;
  },
): Promise<string> {
  const enter = netns === undefined
    ? []
    : ["nsenter", `--net=/run/netns/${netns}`];
  const [command = "", ...rest] = [
    ...enter,
    ...["unshare", "--mount", "--propagation", "slave"],
    ...containedBy({ capabilities, user: 0 }),
    ...[Deno.execPath(), "run", "-A", "--no-check", file, ...args],
  ];
  const { success, stdout, stderr } = await new Deno.Command(command, {
    args: rest,
  }).output();
  const decoder = new TextDecoder();
  assert.ok(success, decoder.decode(stderr));
  return decoder.decode(stdout);
}

Deno.test("W48: a gateway with NET_ADMIN alone and a read-only /proc/sys serves its clients", async (t) => {
  await using lab = await egressLab({ servers: true });
  await using _host = await holdHostMountPoint();
  const { gateway, client } = ADDRESSES;

  await t.step("the gateway is made in its own namespace", async () => {
    const output = await contained([
      program("gateway_alone.ts"),
      FAMILIES.map((family) => gateway[family]).join(),
      ...FAMILIES.map((family) => client[family]),
    ], { capabilities: ["NET_ADMIN"], netns: lab.gateway.name });
    assert.equal(output, "2 of 2 clients are new\n");
  });

  await t.step("the client is made with coild's capabilities", async () => {
    const output = await contained([
      program("../../docs/examples/egress.ts"),
      lab.client.name,
      lab.gateway.name,
    ], { capabilities: ["NET_ADMIN", "SYS_ADMIN"] });
    // What the gateway had made of itself was all that it takes.
    assert.match(output, /^# 0 of 2 clients are new$/m);
  });

  await t.step("packets leave by the gateway, of both families", async () => {
    for (const family of FAMILIES) {
      const seen = await lab.ask(lab.client, family, 10_000);
      assert.equal(seen, gateway[family]);
    }
  });
});
