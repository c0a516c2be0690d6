import assert from "node:assert/strict";
import type { EgressLoss } from "../../../lib/api/mod.ts";
import { sleep } from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import {
  type GatewayReport,
  gatewayReport,
  GatewayStatusWriter,
} from "./gateway_status.ts";

let lines: string[] = [];

const REPORT: GatewayReport = {
  draining: false,
  conntrackPercent: 12,
  snatPortsPercent: 0,
};

const IDENTITY = {
  namespace: "nat",
  egress: "internet",
  pod: "internet-0",
  addresses: {
    ipv4: Address.parse("10.2.0.8"),
    ipv6: Address.parse("fd02::8"),
  },
  node: "node1",
};

async function until(probe: () => boolean): Promise<void> {
  for (let n = 0; n < 200 && !probe(); n++) await sleep(5);
  assert.ok(probe(), "it did not come true");
}

async function writing(
  options: { readonly intervalMs: number },
  test: (fixture: {
    writer: GatewayStatusWriter;
    requests: FakeTransport["requests"];
    report: (change: Partial<GatewayReport>) => void;
    refuse: (status: number) => void;
  }) => Promise<void>,
): Promise<void> {
  let report: GatewayReport | undefined;
  let status = 200;
  const transport = new FakeTransport(() => ({ status, body: {} }));
  const writer = new GatewayStatusWriter({
    client: new KubeClient(transport),
    identity: IDENTITY,
    report: () => report,
    ...options,
  });
  const stop = new AbortController();
  const running = writer.run(stop.signal).catch((error) => {
    if (!stop.signal.aborted) throw error;
  });
  try {
    await test({
      writer,
      requests: transport.requests,
      report: (change) => {
        report = { ...REPORT, ...report, ...change };
        writer.trigger();
      },
      refuse: (code) => status = code,
    });
  } finally {
    stop.abort();
    await running;
  }
}

Deno.test("GatewayStatusWriter applies the pod's own entry, as its own field manager", async () => {
  await writing({ intervalMs: 1 }, async ({ writer, requests, report }) => {
    writer.trigger();
    await sleep(10);
    assert.equal(requests.length, 0, "nothing is known yet");
    report({});
    await until(() => requests.length === 1);
    const [request] = requests;
    assert.equal(request?.method, "PATCH");
    assert.equal(
      request?.path,
      "/apis/coil.cybozu.com/v2/namespaces/nat/egresses/internet/status" +
        "?fieldManager=coil-egress-internet-0&force=true",
    );
    const entryOf = (request?: FakeTransport["requests"][number]) =>
      JSON.parse(String(request?.body)).status.gateways[0];
    const { since, ...entry } = entryOf(request);
    assert.deepEqual(entry, {
      name: "internet-0",
      addresses: ["10.2.0.8", "fd02::8"],
      node: "node1",
      draining: false,
    });
    assert.ok(Math.abs(Date.now() - Date.parse(since)) < 60_000, since);
    report({ draining: true });
    await until(() => requests.length === 2);
    assert.equal(entryOf(requests[1]).since, since);
  });
});

Deno.test("GatewayStatusWriter writes changes that matter, and nothing else", async () => {
  await writing({ intervalMs: 1 }, async ({ requests, report }) => {
    let writes = 0;
    for (
      const [change, isWorth] of [
        [{}, true],
        [{ conntrackPercent: 60 }, false],
        [{ snatPortsPercent: 80 }, true],
        [{ snatPortsPercent: 84 }, false],
        [{ snatPortsPercent: 76 }, false],
        [{ snatPortsPercent: 85 }, true],
        [{ snatPortsPercent: 81 }, false],
        [{ conntrackPercent: 79 }, false],
        [{ limitedClients: ["team/a"] }, true],
        [{ limitedClients: ["team/a", "team/b"] }, true],
        [{ snatPortsPercent: 10 }, true],
        [{ snatPortsPercent: 79 }, false],
        [{ draining: true }, true],
      ] as const
    ) {
      report(change);
      if (isWorth) writes++;
      await until(() => requests.length >= writes);
      await sleep(10);
      assert.equal(requests.length, writes, JSON.stringify(change));
    }
  });
});

Deno.test("GatewayStatusWriter waits between writes, but not with what is urgent", async () => {
  await writing({ intervalMs: 60_000 }, async (fixture) => {
    const { writer, requests, report } = fixture;
    report({});
    await until(() => requests.length === 1);
    report({ limitedClients: ["team/a"] });
    await until(() => requests.length === 2);
    report({ limitedClients: ["team/b"] });
    await sleep(30);
    assert.equal(requests.length, 2);
    report({ draining: true });
    writer.trigger({ urgent: true });
    await until(() => requests.length === 3);
  });
});

Deno.test("GatewayStatusWriter writes at once what a condition follows from, and no number that goes up and down", async () => {
  await writing({ intervalMs: 60_000 }, async ({ requests, report }) => {
    let writes = 0;
    for (
      const [change, isNews] of [
        [{}, true],
        [{ conntrackPercent: 79 }, false],
        [{ conntrackPercent: 81 }, true],
        [{ conntrackPercent: 75 }, false],
        [{ conntrackPercent: 85 }, false],
        [{ conntrackPercent: 60 }, true],
        [{ snatPortsPercent: 80 }, true],
        [{ snatPortsPercent: 70 }, false],
        [{ limitedClients: ["team/a"] }, true],
        [{ limitedClients: ["team/a", "team/b"] }, false],
        [{ limitedClients: [] }, true],
        [{ unlimited: true }, true],
      ] as const
    ) {
      report(change);
      if (isNews) writes++;
      await until(() => requests.length >= writes);
      await sleep(10);
      assert.equal(requests.length, writes, JSON.stringify(change));
    }
  });
});

Deno.test("GatewayStatusWriter names the largest client only of what the gateway is short of", async () => {
  await writing({ intervalMs: 1 }, async ({ requests, report }) => {
    const named: unknown[] = [];
    for (
      const change of [
        {
          largestClient: "team/a",
          snatPortsClient: "team/c",
          snatPortsDestination: "192.0.2.1:443",
        },
        { conntrackPercent: 81 },
        { conntrackPercent: 0, snatPortsPercent: 81 },
        { snatPortsPercent: 0, limitedClients: ["team/b"] },
      ]
    ) {
      const before = requests.length;
      report(change);
      await sleep(10);
      if (requests.length === before) continue;
      const body = JSON.parse(String(requests.at(-1)?.body));
      const { largestClient, snatPortsClient, snatPortsDestination } =
        body.status.gateways[0];
      named.push([largestClient, snatPortsClient, snatPortsDestination]);
    }
    assert.deepEqual(named, [
      [undefined, undefined, undefined],
      ["team/a", undefined, undefined],
      [undefined, "team/c", "192.0.2.1:443"],
      [undefined, undefined, undefined],
    ]);
  });
});

Deno.test("GatewayStatusWriter says a percentage only of what the gateway is short of, and the same as long as it is about right", async () => {
  await writing({ intervalMs: 1 }, async ({ requests, report }) => {
    const entries: unknown[] = [];
    for (
      const conntrackPercent of [79, 81, 84, 78, 90, 69, 75]
    ) {
      const before = requests.length;
      report({ conntrackPercent });
      await sleep(10);
      if (requests.length === before) continue;
      const body = JSON.parse(String(requests.at(-1)?.body));
      entries.push(body.status.gateways[0].conntrackPercent);
    }
    assert.deepEqual(entries, [undefined, 81, 90, undefined]);
  });
});

Deno.test("GatewayStatusWriter warns once and tries again", async () => {
  await writing({ intervalMs: 5 }, async ({ requests, report, refuse }) => {
    lines = loggedLines();
    refuse(403);
    report({});
    await until(() => requests.length >= 3);
    refuse(200);
    const refused = requests.length;
    await until(() => requests.length > refused);
    await sleep(20);
    assert.ok(requests.length <= refused + 2, "goes on after it was written");
    assert.equal(lines.filter((line) => line.includes("warn")).length, 1);
  });
});

const nobody = {
  names: () => [],
  limits: { isSupported: true },
  nameOf: (client: Address) => `team/${client}`,
};

/** The node translates no source. */
const translated = { list: () => [] };

/** Nothing can be read. */
const NOTHING = { conntrack: undefined, flows: undefined, nodes: undefined };

Deno.test("gatewayReport() gives percentages of the worst, and leaves out what is not known", () => {
  const use = {
    protocol: 6,
    destination: Address.parse("192.0.2.1"),
    largest: Address.parse("10.1.1.2"),
  };
  assert.deepEqual(
    gatewayReport({
      draining: true,
      limited: nobody,
      losses: { list: () => [], suspects: () => [] },
      translated,
      readings: {
        nodes: undefined,
        conntrack: { entries: 999, max: 1000 },
        flows: {
          flows: 6,
          established: 5,
          clients: [{ address: Address.parse("10.1.1.3"), flows: 6 }],
          ports: [
            { ...use, port: 443, used: 717, limit: 1024 },
            { ...use, port: 80, used: 600, limit: 64512 },
          ],
        },
      },
    }),
    {
      draining: true,
      conntrackPercent: 99,
      snatPortsPercent: 70,
      snatPortsDestination: "192.0.2.1:443",
      snatPortsClient: "team/10.1.1.2",
      largestClient: "team/10.1.1.3",
    },
  );
  const destinations = [["fd00::1", 443], ["192.0.2.1", 0]] as const;
  const texts = destinations.map(([text, port]) => {
    const destination = Address.parse(text);
    const ports = [{ ...use, destination, port, used: 1, limit: 1 }];
    return gatewayReport({
      draining: false,
      limited: nobody,
      losses: { list: () => [], suspects: () => [] },
      translated,
      readings: {
        nodes: undefined,
        conntrack: undefined,
        flows: { flows: 1, established: 1, clients: [], ports },
      },
    }).snatPortsDestination;
  });
  assert.deepEqual(texts, ["[fd00::1]:443", "192.0.2.1"]);
  const readings = NOTHING;
  const losses = { list: () => [], suspects: () => [] };
  const idle = { draining: false, limited: nobody, losses, translated };
  assert.deepEqual(gatewayReport({ ...idle, readings }), { draining: false });
  const unlimited = { ...NOTHING, conntrack: { entries: 5, max: 0 } };
  assert.equal(
    gatewayReport({ ...idle, readings: unlimited }).conntrackPercent,
    0,
  );
});

Deno.test("gatewayReport() looks for the names of clients only where the gateway may be short of something", () => {
  const client = Address.parse("10.1.1.2");
  const use = {
    protocol: 6,
    destination: Address.parse("192.0.2.1"),
    port: 443,
    largest: client,
  };
  const namesAt = (percent: number) => {
    const asked: Address[] = [];
    const nameOf = (address: Address) => {
      asked.push(address);
      return "team/a";
    };
    gatewayReport({
      draining: false,
      limited: { ...nobody, nameOf },
      losses: { list: () => [], suspects: () => [] },
      translated,
      readings: {
        nodes: undefined,
        conntrack: { entries: percent, max: 100 },
        flows: {
          flows: 1,
          established: 1,
          clients: [{ address: client, flows: 1 }],
          ports: [{ ...use, used: percent, limit: 100 }],
        },
      },
    });
    return asked.length;
  };
  assert.deepEqual([69, 70].map(namesAt), [0, 2]);
});

Deno.test("gatewayReport() names ten limited clients, and says when the kernel limits none", () => {
  const readings = NOTHING;
  const names = Array.from({ length: 12 }, (_, i) => `team/pod-${i}`);
  const report = (limited: Parameters<typeof gatewayReport>[0]["limited"]) =>
    gatewayReport({
      draining: false,
      limited,
      losses: { list: () => [], suspects: () => [] },
      translated,
      readings,
    });
  assert.deepEqual(
    report({ ...nobody, names: () => names }).limitedClients,
    names.slice(0, 10),
  );
  assert.equal(report(nobody).unlimited, undefined);
  assert.equal(
    report({ ...nobody, limits: { isSupported: false } }).unlimited,
    true,
  );
});

const LOSS = {
  address: "10.2.0.9",
  nodes: 1,
  nodeNames: ["n1"],
  since: "2026-01-02T03:04:05Z",
  endedConnections: 3,
};

Deno.test("gatewayReport() has the gateways that nodes have lost", () => {
  const readings = { ...NOTHING, nodes: 4 };
  const suspect = { address: "10.2.0.9", nodes: 1, nodeNames: ["n1"] };
  const losses = { list: () => [LOSS], suspects: () => [suspect] };
  assert.deepEqual(
    gatewayReport({
      draining: false,
      limited: nobody,
      losses,
      translated,
      readings,
    }),
    {
      draining: false,
      probingNodes: 4,
      losses: [LOSS],
      suspects: [suspect],
    },
  );
});

Deno.test("GatewayStatusWriter writes at once that a gateway is lost, or answers again, and not which nodes say so", async () => {
  await writing({ intervalMs: 3_600_000 }, async (fixture) => {
    const { requests, report } = fixture;
    const writes = async (losses: readonly EgressLoss[], count: number) => {
      report({ losses });
      await until(() => requests.length === count);
    };
    await writes([], 1);
    await writes([LOSS], 2);
    // In its turn, an hour later.
    report({ losses: [{ ...LOSS, nodes: 2, endedConnections: 9 }] });
    report({ losses: [{ ...LOSS, nodes: 3, endedConnections: 9 }] });
    await sleep(50);
    assert.equal(requests.length, 2);
    await writes([LOSS, { ...LOSS, address: "10.2.0.8" }], 3);
    await writes([{ ...LOSS, nodes: 0 }, { ...LOSS, address: "10.2.0.8" }], 4);
  });
});

Deno.test("GatewayStatusWriter writes in its turn how many nodes probe, and only what differs by a tenth", async () => {
  await writing({ intervalMs: 1 }, async ({ requests, report }) => {
    const written = () =>
      requests.map(({ body = "" }) =>
        JSON.parse(body).status.gateways[0].probingNodes
      );
    for (const [probingNodes, count] of [[1_000, 1], [1_200, 2]] as const) {
      report({ probingNodes });
      await until(() => requests.length === count);
    }
    report({ probingNodes: 1_210 });
    await sleep(50);
    assert.deepEqual(written(), [1_000, 1_200]);
  });
});

const TRANSLATION = {
  address: "10.2.0.8",
  seenAs: "192.0.2.1",
  destination: "203.0.113.9",
};

Deno.test("gatewayReport() has what the node makes of its sources", () => {
  const translated = { list: () => [TRANSLATION] };
  const losses = { list: () => [], suspects: () => [] };
  assert.deepEqual(
    gatewayReport({
      draining: false,
      limited: nobody,
      losses,
      translated,
      readings: NOTHING,
    }),
    { draining: false, translated: [TRANSLATION] },
  );
});

Deno.test("GatewayStatusWriter writes at once that the node translates a source, as another one, and no longer", async () => {
  await writing({ intervalMs: 3_600_000 }, async ({ requests, report }) => {
    const changes = [
      [],
      [TRANSLATION],
      [TRANSLATION, { ...TRANSLATION, seenAs: "192.0.2.2" }],
      [],
    ];
    for (const [index, translated] of changes.entries()) {
      report({ translated });
      await until(() => requests.length === index + 1);
    }
  });
});
