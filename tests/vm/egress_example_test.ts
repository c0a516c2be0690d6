import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { run } from "../netns/testing.ts";
import { ADDRESSES, egressLab } from "./egress_server_lab.ts";

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
