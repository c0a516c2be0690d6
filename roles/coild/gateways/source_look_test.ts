import assert from "node:assert/strict";
import type { AnnounceResult } from "../../../lib/announce/mod.ts";
import { egressLabels } from "../../../lib/api/mod.ts";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { FakeClock, settle } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { KubeClient, type V1Pod } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { LinuxError } from "../../../lib/linux/mod.ts";
import {
  CONNTRACK_STATUS,
  type ConntrackFlow,
} from "../../../lib/netlink/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { SourceLook } from "./source_look.ts";

const { srcNat, dstNat } = CONNTRACK_STATUS;
const { signal } = new AbortController();
const NODE = "192.0.2.1";
const TUNNEL_PORT = 5555;

/** A connection that the node sends on with its own address. */
function flow(
  from: string,
  to: string,
  { seenAs = NODE, status = srcNat, protocol = 6, port = 443 } = {},
): ConntrackFlow {
  return {
    family: Address.parse(from).family,
    protocol,
    status,
    originalSource: Address.parse(from),
    originalDestination: Address.parse(to),
    originalDestinationPort: port,
    replySource: Address.parse(to),
    replyDestination: Address.parse(seenAs),
  } as ConntrackFlow;
}

/** A gateway of "nat/internet". */
function gateway(
  ips: readonly string[],
  { name = "internet", hostNetwork = false } = {},
): V1Pod {
  return {
    metadata: {
      namespace: "nat",
      name: "x",
      labels: { ...egressLabels(name) },
    },
    spec: { containers: [], hostNetwork },
    status: { phase: "Running", podIPs: ips.map((ip) => ({ ip })) },
  };
}

function lookLab() {
  const state = {
    pods: [gateway(["10.2.0.8", "fd02::8"])],
    flows: [] as ConntrackFlow[],
    destinations: ["203.0.113.0/24", "2001:db8:9::/48"],
    httpStatus: 200,
    failure: undefined as Error | undefined,
    result: "accepted" as AnnounceResult,
  };
  const looks: string[] = [];
  let opened = 0;
  const reports: string[] = [];
  const transport = new FakeTransport(() => ({
    status: state.httpStatus,
    body: { spec: { destinations: state.destinations } },
  }));
  const clock = new FakeClock();
  const look = new SourceLook({
    client: new KubeClient(transport),
    pods: { list: () => state.pods },
    port: TUNNEL_PORT,
    clock,
    announcer: {
      reportSources: (target, { translated }) => {
        const { egress: { namespace, name }, address } = target;
        const texts = translated.map(({ source, seenAs, destination }) =>
          `${source} as ${seenAs} to ${destination}`
        );
        reports.push(`${namespace}/${name} ${address}: ${texts.join("; ")}`);
        return Promise.resolve({ ...target, result: state.result });
      },
    },
    open: () => {
      opened++;
      if (state.failure !== undefined) throw state.failure;
      return {
        visit: (visitor, { end, family } = {}) => {
          looks.push(end === undefined ? `${family}` : `${end.address}`);
          // An old kernel, which shows all of the family.
          const of = end?.address.family ?? family;
          for (const each of state.flows) if (each.family === of) visitor(each);
          return Promise.resolve();
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      };
    },
  });
  return {
    state,
    clock,
    looks,
    reports,
    opened: () => opened,
    requests: transport.requests,
    run: (signal: AbortSignal) => look.run(signal),
    look: () => look.look(signal),
  };
}

Deno.test("SourceLook reports to a gateway with which sources its packets leave the node", async () => {
  const { state, look, looks, reports, requests } = lookLab();
  state.flows = [
    flow("10.2.0.8", "203.0.113.9"),
    flow("10.2.0.8", "203.0.113.10", { seenAs: "192.0.2.2" }),
    flow("fd02::8", "2001:db8:9::9", { seenAs: "2001:db8::1" }),
  ];
  await look();
  assert.deepEqual(reports, [
    "nat/internet 10.2.0.8: 10.2.0.8 as 192.0.2.1 to 203.0.113.9; 10.2.0.8 as 192.0.2.2 to 203.0.113.10; fd02::8 as 2001:db8::1 to 2001:db8:9::9",
  ]);
  assert.equal(requests.length, 1);
  assert.match(`${requests[0]?.path}`, /namespaces\/nat\/egresses\/internet$/);
  assert.deepEqual(looks, ["10.2.0.8", "ipv6", "10.2.0.8", "ipv6"]);
});

const HARMLESS: readonly (readonly [what: string, flow: ConntrackFlow])[] = [
  ["is not translated", flow("10.2.0.8", "203.0.113.9", { status: 0 })],
  [
    "goes to a Service",
    flow("10.2.0.8", "203.0.113.9", { status: srcNat | dstNat }),
  ],
  [
    "gets another port only",
    flow("10.2.0.8", "203.0.113.9", { seenAs: "10.2.0.8" }),
  ],
  ["another pod opened", flow("10.2.0.9", "203.0.113.9")],
  [
    "is a tunnel to a client",
    flow("10.2.0.8", "203.0.113.9", { protocol: 17, port: TUNNEL_PORT }),
  ],
];

for (const [what, harmless] of HARMLESS) {
  Deno.test(`SourceLook makes no call for a connection that ${what}`, async () => {
    const { state, look, looks, opened, reports, requests } = lookLab();
    state.flows = [harmless];
    await look();
    assert.deepEqual([looks.length, opened()], [2, 1]);
    assert.deepEqual([reports, requests.length], [[], 0]);
  });
}

Deno.test("SourceLook takes UDP to other ports and TCP to the tunnels' port for clients' packets", async () => {
  const { state, look, reports } = lookLab();
  for (
    const clients of [{ protocol: 17, port: 53 }, { port: TUNNEL_PORT }]
  ) {
    state.flows = [flow("10.2.0.8", "203.0.113.9", clients)];
    await look();
  }
  assert.equal(reports.length, 2);
});

Deno.test("SourceLook reports nothing of connections that are not to destinations of the Egress", async () => {
  const { state, look, reports } = lookLab();
  state.flows = [flow("10.2.0.8", "198.51.100.1")];
  await look();
  assert.deepEqual(reports, []);
  state.destinations = ["0.0.0.0/0"];
  await look();
  assert.equal(reports.length, 1);
});

Deno.test("SourceLook asks for an Egress once, whose gateways each get their own report", async () => {
  const { state, look, reports, requests } = lookLab();
  state.pods = [
    gateway(["10.2.0.8"]),
    gateway(["10.2.0.9"]),
    gateway(["10.2.0.10"], { name: "other" }),
  ];
  state.flows = ["10.2.0.8", "10.2.0.9", "10.2.0.10"]
    .map((from) => flow(from, "203.0.113.9"));
  await look();
  assert.deepEqual(reports.map((text) => text.split(":")[0]), [
    "nat/internet 10.2.0.8",
    "nat/internet 10.2.0.9",
    "nat/other 10.2.0.10",
  ]);
  assert.equal(requests.length, 2);
});

Deno.test("SourceLook reads each family once where there are many gateways", async () => {
  const { state, look, looks } = lookLab();
  const ips = (count: number) =>
    Array.from({ length: count }, (_, i) => gateway([`10.2.0.${i}`]));
  state.pods = ips(7);
  await look();
  assert.equal(looks.length, 7);
  looks.length = 0;
  state.pods = ips(8);
  await look();
  assert.deepEqual(looks, ["ipv4"]);
});

Deno.test("SourceLook does nothing without a gateway that has a network of its own", async () => {
  const { state, look, looks, opened } = lookLab();
  const client = gateway(["10.2.0.8"]);
  for (
    const pod of [
      { ...client, metadata: { namespace: "nat", name: "web", labels: {} } },
      gateway(["192.0.2.1"], { hostNetwork: true }),
      gateway([]),
      gateway(["10.2.0.8"], { name: "" }),
    ]
  ) {
    state.pods = [pod];
    await look();
  }
  assert.deepEqual([looks, opened()], [[], 0]);
});

Deno.test("SourceLook reports eight sources at most, however many connections there are", async () => {
  const { state, look, reports } = lookLab();
  state.flows = Array.from(
    { length: 1_000 },
    (_, i) =>
      flow("10.2.0.8", `203.0.113.${i % 250}`, { seenAs: `192.0.2.${i % 20}` }),
  );
  await look();
  assert.equal(reports[0]?.split(";").length, 8);
});

Deno.test("SourceLook says once in the log what it found, and again and again to the gateway", async () => {
  const lines = loggedLines();
  const { state, look, reports } = lookLab();
  state.flows = [flow("10.2.0.8", "203.0.113.9")];
  for (let i = 0; i < 3; i++) await look();
  assert.equal(reports.length, 3);
  const found = lines.filter((line) => line.includes("translates the source"));
  assert.equal(found.length, 1);
  assert.match(found[0] ?? "", /192\.0\.2\.1/);
});

Deno.test("SourceLook goes on when the kernel, the API server or the gateway fails", async () => {
  const lines = loggedLines();
  const { state, look, reports } = lookLab();
  state.flows = [flow("10.2.0.8", "203.0.113.9")];
  state.failure = new LinuxError("open a socket", {
    syscall: "socket",
    errno: 1,
  });
  await look();
  await look();
  state.failure = undefined;
  for (state.httpStatus of [500, 404]) await look();
  assert.deepEqual(reports, []);
  state.httpStatus = 200;
  state.result = "refused";
  await look();
  await look();
  assert.equal(reports.length, 2);
  const failed = lines.filter((line) => line.includes("Cannot see whether"));
  assert.equal(failed.length, 2, "each cause once");
  state.failure = new RangeError("a bug");
  await assert.rejects(look(), RangeError);
});

Deno.test("SourceLook looks about once a minute", async () => {
  const { clock, looks, run } = lookLab();
  await using group = new TaskGroup();
  group.run("look", run);
  for (let minute = 0; minute < 20; minute++) {
    await clock.advance(60_000);
    await settle();
  }
  const count = looks.length / 2;
  assert.ok(count >= 15 && count <= 25, `${count} looks in 20 minutes`);
  group.abort();
});
