// A kernel that was started without IPv6 has no /proc/sys/net/ipv6; here it is hidden.
import assert from "node:assert/strict";
import { PRIMARY, SECONDARY } from "../../lib/vpc/host/testing.ts";
import { netnsTest } from "./testing.ts";

const CONFIG = new URL("../../deno.json", import.meta.url).pathname;

const SCRIPT = `
import { VpcHost } from "${new URL("../../lib/vpc/mod.ts", import.meta.url)}";
import { settingsOf } from "${new URL(
  "../../lib/vpc/host/testing.ts",
  import.meta.url,
)}";
await using host = VpcHost.open();
const { changed, problems } = await host.ensure(
  settingsOf({ families: ["ipv4", "ipv6"] }),
);
const messages = problems.map(({ message }) => message);
console.log(JSON.stringify({ changed: changed.length, messages }));
`;

/** Runs the script, then shows the rules of both families. */
async function runHidden(): Promise<string[]> {
  const script = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(script, SCRIPT);
  const command = `
    mount --make-rprivate /
    ip link add eth0 address ${PRIMARY.mac} type veth peer name p0
    ip link add eth1 address ${SECONDARY.mac} type veth peer name p1
    ip link set p1 up
    mount -t tmpfs none /proc/sys/net/ipv6
    "$0" run --quiet --no-lock --allow-all --config "$2" "$1"
    ip -4 rule show pref 1024
    ip -6 rule show pref 1024`;
  try {
    const { stdout, stderr, success } = await new Deno.Command("unshare", {
      args: [
        ...["--net", "--mount", "sh", "-euc", command],
        ...[Deno.execPath(), script, CONFIG],
      ],
    }).output();
    const decoder = new TextDecoder();
    assert.ok(success, decoder.decode(stderr));
    return decoder.decode(stdout).trim().split("\n");
  } finally {
    await Deno.remove(script);
  }
}

netnsTest(
  "vpc: a kernel without IPv6 gets what is of IPv4, and a report",
  async () => {
    const [report, ...rules] = await runHidden();
    const { changed, messages } = JSON.parse(report ?? "");
    assert.ok(changed > 0);
    assert.deepEqual(messages, [
      "Cannot configure ipv6 of ENIs: the kernel has none; remove ipv6 from --ip-family",
    ]);
    assert.deepEqual(rules.map((rule) => rule.replace(/\s+/g, " ").trim()), [
      "1024: from all fwmark 0x80/0x80 lookup main proto 33",
    ]);
  },
);
