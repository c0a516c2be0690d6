import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import type { NodeIpam } from "../../../lib/ipam/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import { nodeAddresses, type NodeAddressesOptions } from "./node_addresses.ts";

const KEY = { pool: "default", containerId: "c1", ifname: "eth0" };
const HUSK = { ...KEY, containerId: "c2" };
const ADDRESSES = {
  ipv4: Address.parse("10.2.0.9"),
  ipv6: Address.parse("fd02::9"),
};
const TEXTS = ["10.2.0.9", "fd02::9"];

const WEB: V1Pod = {
  metadata: {
    namespace: "apps",
    name: "web",
    deletionTimestamp: "2026-01-01T00:00:00Z",
  },
  status: { podIPs: TEXTS.map((ip) => ({ ip })) },
};
const YOUNG: V1Pod = { metadata: { namespace: "apps", name: "young" } };
const HOST: V1Pod = {
  metadata: { namespace: "apps", name: "host" },
  spec: { containers: [], hostNetwork: true },
};

function optionsWith(
  { isSynced, locks }: {
    readonly isSynced: boolean;
    readonly locks: KeyedMutex;
  },
): NodeAddressesOptions {
  const link = { ...KEY, index: 7, hostName: "veth1", addresses: ADDRESSES };
  const survey = {
    pods: [{ ...link, up: true }, { ...link, ...HUSK, up: false }],
    husks: [{ ...HUSK, index: 8 }],
    malformed: [],
    misplacedRoutes: [],
  };
  const record = {
    addresses: ADDRESSES,
    ageMs: 2_500,
    state: "used" as const,
    generation: 1,
  };
  const ipam: Pick<NodeIpam, "list" | "blocks"> = {
    list: () => [
      { ...KEY, ...record, block: "default-0" },
      { ...HUSK, ...record, ageMs: 999 },
    ],
    blocks: () =>
      [{
        name: "default-0",
        pool: "default",
        prefixes: { ipv4: Prefix.parse("10.2.0.0/27") },
      }] as unknown as ReturnType<NodeIpam["blocks"]>, // all that is read of a block
  };
  const network: Pick<PodNetwork, "survey"> = { survey: async () => survey };
  const pods = { isSynced, list: () => [WEB, HOST, YOUNG] };
  return { nodeName: "n1", ipam, network, pods, locks };
}

Deno.test("nodeAddresses() puts what kernel, table and API server have side by side", async () => {
  const locks = new KeyedMutex();
  using _busy = await locks.lock(keyText(KEY));
  const found = await nodeAddresses(optionsWith({ isSynced: true, locks }));
  const { pool: _pool, ...key } = KEY;
  const { pool: _same, ...husk } = HUSK;
  assert.deepEqual(found, {
    node: "n1",
    kernel: [
      { ...key, state: "up", addresses: TEXTS },
      { ...husk, state: "down", addresses: TEXTS },
      { ...husk, state: "husk", addresses: [] },
    ],
    table: [
      {
        ...KEY,
        block: "default-0",
        state: "used",
        ageSeconds: 2,
        generation: 1,
        isBusy: true,
        addresses: TEXTS,
      },
      {
        ...HUSK,
        state: "used",
        ageSeconds: 0,
        generation: 1,
        isBusy: false,
        addresses: TEXTS,
      },
    ],
    pods: [
      { namespace: "apps", name: "web", isEnding: true, addresses: TEXTS },
      { namespace: "apps", name: "young", isEnding: false, addresses: [] },
    ],
    blocks: { "default-0": ["10.2.0.0/27"] },
  });
});

Deno.test("nodeAddresses() says nothing of pods that the API server has not listed", async () => {
  const locks = new KeyedMutex();
  const found = await nodeAddresses(optionsWith({ isSynced: false, locks }));
  assert.equal("pods" in found, false);
});
