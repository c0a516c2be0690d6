import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { run } from "../netns/testing.ts";
import { ADDRESSES, egressLab, shell } from "./egress_server_lab.ts";

const EXAMPLE = new URL("../../docs/examples/egress.ts", import.meta.url)
  .pathname;

Deno.test("docs/examples/egress.ts makes a client and a gateway, again and again", async () => {
  await using lab = await egressLab({ servers: true });
  for (const family of FAMILIES) {
    const seen = await lab.ask(lab.client, family);
    assert.equal(seen, ADDRESSES.client[family], "before");
  }
  const example = () =>
    run(Deno.execPath(), [
      ...["run", "-A", "--no-check", EXAMPLE],
      ...[lab.client.name, lab.gateway.name],
    ]);
  const first = await example();
  assert.match(first, /^# 2 of 2 clients are new$/m);
  for (const family of FAMILIES) {
    const seen = await lab.ask(lab.client, family, 100_000);
    assert.equal(seen, ADDRESSES.gateway[family], "after");
  }
  const second = await example();
  assert.match(second, /^# 0 of 2 clients are new$/m);
  assert.match(second, /^# 0 changes$/m);
  const text = (output: string) => output.replaceAll(/^# \d.*$/gm, "");
  assert.equal(text(second), text(first));
});

Deno.test("a gateway whose /proc/sys is read-only works where the settings will do, and says which one will not", async () => {
  await using lab = await egressLab({ servers: true });
  const example = async () => {
    const script = `mount --bind /proc/sys /proc/sys
      mount -o remount,bind,ro /proc/sys
      exec "$0" "$@"`;
    const { success, stderr } = await new Deno.Command("unshare", {
      args: [
        ...["--mount", "sh", "-euc", script],
        ...[Deno.execPath(), "run", "-A", "--no-check", EXAMPLE],
        ...[lab.client.name, lab.gateway.name],
      ],
      stdout: "null",
    }).output();
    return { success, stderr: new TextDecoder().decode(stderr) };
  };
  const refused = await example();
  assert.equal(refused.success, false);
  assert.match(
    refused.stderr,
    /Cannot set sysctl "net\/ipv4\/ip_forward" to 1: it is 0/,
  );
  await shell(
    lab.gateway,
    `echo 1 > /proc/sys/net/ipv4/ip_forward
     echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
     echo 2 > /proc/sys/net/ipv4/conf/all/rp_filter`,
  );
  await shell(lab.client, "echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter");
  const { success, stderr } = await example();
  assert.equal(success, true, stderr);
  for (const family of FAMILIES) {
    assert.equal(await lab.ask(lab.client, family), ADDRESSES.gateway[family]);
  }
});
