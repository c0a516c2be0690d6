import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { FakeNetwork, linkOf } from "../testing.ts";
import { findHostAddresses } from "./host_addresses.ts";

const [A, B, C] = ["10.6.0.10", "10.6.0.11", "10.6.0.12"];
const LINKS = {
  addresses: [A, B, C].map((text) => addressEntry(2, `${text}/24`)),
  links: [linkOf(2, { name: "eth0" })],
};

async function found(
  options: Parameters<typeof findHostAddresses>[2],
): Promise<string[]> {
  const host = new FakeNetwork({});
  host.source = Address.parse(C ?? "");
  return (await findHostAddresses(host, LINKS, options)).map(String);
}

Deno.test("findHostAddresses() has an earlier gateway first, then what the host sends from, then the others", async () => {
  const towards = [Address.parse("10.6.0.100")];
  const before = [Address.parse(B ?? "")];
  assert.deepEqual(await found({}), [A, B, C]);
  assert.deepEqual(await found({ towards }), [C, A, B]);
  assert.deepEqual(await found({ towards, before }), [B, C, A]);
});

Deno.test("findHostAddresses() leaves out addresses of links that are not the host's", async () => {
  const host = new FakeNetwork({});
  const links = [linkOf(2, { name: "docker0" })];
  assert.deepEqual(await findHostAddresses(host, { ...LINKS, links }), []);
});
