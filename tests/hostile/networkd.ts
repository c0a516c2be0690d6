/** A real systemd-networkd in a node's network namespace. */
import assert from "node:assert/strict";
import { eventually } from "../lab/wait.ts";

/** The settings that the guide and the Event advise. */
export const NETWORKD_ADVICE = `[Network]
ManageForeignRoutingPolicyRules=no
ManageForeignRoutes=no
`;

/** It sees no udev, whose /sys can be written; nor the machine's bus. */
const SCRIPT = `set -e
mount -o remount,bind,ro /sys || mount -o bind,ro /sys /sys
mount -t tmpfs none /run
mkdir -p /run/systemd/network /run/systemd/networkd.conf.d /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
chown -R systemd-network:systemd-network /run/systemd/netif
printf '%s' "$1" >/run/systemd/networkd.conf.d/coil.conf
printf '[Match]\\nName=own0\\n[Network]\\nAddress=10.99.0.1/24\\nLinkLocalAddressing=no\\nIPv6AcceptRA=no\\n' >/run/systemd/network/10-own.network
exec /lib/systemd/systemd-networkd
`;

/** Where it runs. */
export interface NetworkdHost {
  /** Name below /run/netns. */
  readonly netns: string;
  /** Runs a command there. */
  run(command: string, ...args: string[]): Promise<unknown>;
}

/** For the slowest of machines. */
const PATIENCE = { timeoutMs: 120_000 };

/** Runs systemd-networkd on a node and has it configure a link. Resolves when it has. */
export async function runNetworkd(
  node: NetworkdHost,
  settings: string,
): Promise<AsyncDisposable> {
  const child = new Deno.Command("nsenter", {
    args: [
      ...[`--net=/run/netns/${node.netns}`, "unshare", "--mount"],
      ...["sh", "-c", SCRIPT, "sh", settings],
    ],
    env: { SYSTEMD_LOG_LEVEL: "debug", SYSTEMD_LOG_TARGET: "console" },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let said = "";
  const reading = (async () => {
    for await (
      const text of child.stderr.pipeThrough(new TextDecoderStream())
    ) said += text;
  })();
  await eventually("systemd-networkd to know the network", () => {
    assert.match(said, /Enumeration completed/);
    return Promise.resolve(true);
  }, PATIENCE);
  await node.run("ip", "link", "add", "own0", "type", "bridge");
  await node.run("ip", "link", "set", "own0", "up");
  await eventually("systemd-networkd to configure its link", () => {
    assert.match(said, /own0: State changed: configuring -> configured/);
    return Promise.resolve(true);
  }, PATIENCE);
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
      await reading;
      await node.run("ip", "link", "del", "own0");
    },
  };
}
