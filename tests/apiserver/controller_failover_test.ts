import assert from "node:assert/strict";
import type { V1Lease } from "../../lib/kube/mod.ts";
import { IPAM_LEASE, REQUEST_LABEL } from "../../lib/names/mod.ts";
import {
  assertWithin,
  eventually,
  lagWhile,
  sleep,
  writing,
} from "../lab/mod.ts";
import { coilCommand } from "./coild_lab.ts";
import { ControllerLab } from "./controller_testing.ts";
import { reportMs } from "./egress_gateway_lab.ts";

/** What a controller has in its caches. */
const CACHED = [
  ...["addresspools", "addressblocks", "blockrequests", "nodes"],
  ...["egresses", "egressclientslices", "pods", "deployments", "services"],
];

/** A controller's requests, which are not the test's own. */
async function requestsOf(lab: ControllerLab, verb: string, since: Date) {
  const requests = await lab.plane.auditRequests({ verb, since });
  return requests.filter(({ userAgent, resource }) =>
    userAgent.startsWith("coil-controller/") && CACHED.includes(resource)
  );
}

/** Starts a standby, and returns when it watches all that it keeps. */
async function standby(lab: ControllerLab) {
  const since = new Date();
  const controller = lab.startController();
  await eventually("its watches", async () => {
    const watches = await requestsOf(lab, "watch", since);
    const kinds = new Set(watches.map(({ resource }) => resource));
    return CACHED.every((kind) => kinds.has(kind));
  });
  return controller;
}

/** A leader that dies keeps its lease for so long; one that stops gives it back. */
const LEASE_MS = 15_000;
/** Until a standby has seen that the lease is free, and has it. */
const CLAIM_MS = 1_000;
/** Until a new leader has answered its first request. */
const SERVE_MS = 1_000;

/** Asserts that another has the lease soon, and gives a block soon after that; says which of both took too long. */
async function assertTakenOver(
  lab: ControllerLab,
  { since, within, block, former }: {
    readonly since: number;
    readonly within: number;
    readonly block: string;
    readonly former: string;
  },
): Promise<void> {
  const { lagMs } = await lagWhile(async () => {
    assert.equal(await lab.ask("v4", "node1"), `block ${block}`);
  }, { step: writing(lab.plane) });
  const answeredMs = Date.now();
  const { holderIdentity, acquireTime } = await leaseOf(lab);
  assert.notEqual(holderIdentity, former);
  const acquiredMs = Date.parse(acquireTime ?? "");
  const [claim, serve] = [acquiredMs - since, answeredMs - acquiredMs];
  reportMs("to the lease, and from it to a block", [claim, serve]);
  const what = "until another had the lease";
  assertWithin(claim, { what, limitMs: within, lagMs });
  const served = "from the lease to a block";
  assertWithin(serve, { what: served, limitMs: SERVE_MS, lagMs });
}

async function leaseOf(lab: ControllerLab) {
  const lease = await lab.plane.request(
    "GET",
    `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/${IPAM_LEASE}`,
  ) as V1Lease;
  return lease.spec ?? {};
}

async function holderOf(lab: ControllerLab): Promise<string> {
  return (await leaseOf(lab)).holderIdentity ?? "";
}

/** Lists of whole kinds; what is pending is asked for by name. */
async function listsSince(
  lab: ControllerLab,
  since: Date,
): Promise<readonly string[]> {
  const watches = await requestsOf(lab, "watch", since);
  const lists = await requestsOf(lab, "list", since);
  return [
    ...watches.filter(({ uri }) => uri.includes("sendInitialEvents")),
    ...lists,
  ].map(({ uri }) => decodeURIComponent(uri))
    .filter((uri) => !uri.includes(`labelSelector=${REQUEST_LABEL}`));
}

Deno.test("coil-controller spares the API server: few writes of numbers, and a standby that lists nothing again", async (t) => {
  await using lab = await ControllerLab.start("ctlfailover", ["node1"], {
    audit: "metadata",
  });
  await lab.createPool("v4", {
    blockSizeBits: 0,
    subnets: [{ ipv4: "10.4.0.0/24" }],
  });
  await lab.plane.request("PATCH", "/api/v1/nodes/node1", {
    spec: { podCIDR: "10.6.0.0/16", podCIDRs: ["10.6.0.0/16"] },
  }, { contentType: "application/merge-patch+json" });
  await lab.createPool("quiet", { subnets: [{ ipv4: "10.6.0.0/24" }] });
  const [command, ...args] = coilCommand("coil-controller");
  const first = await lab.plane.startProcess({
    command,
    args: [...args, "--metrics-addr=0", "--health-addr=0"],
    serviceAccount: { namespace: "kube-system", name: "coil-controller" },
    env: {},
  });
  assert.equal(await lab.ask("v4", "node1"), "block v4-0");
  const second = await standby(lab);
  const updates = async (pool: string, since?: Date) => {
    const all = await lab.plane.auditRequests({
      verb: "update",
      ...(since !== undefined && { since }),
    });
    return all.filter(({ resource, subresource, name }) =>
      resource === "addresspools" && subresource === "status" && name === pool
    ).length;
  };
  await eventually("the condition of the quiet pool", async () => {
    const { status } = await lab.pool("quiet");
    return status?.conditions?.some(({ reason }) => reason === "InPodCIDR");
  });

  await t.step(
    "numbers of a pool are written now and then, all at last",
    async () => {
      await lab.createPool("many", {
        blockSizeBits: 0,
        subnets: [{ ipv4: "10.5.0.0/24" }],
      });
      const startMs = performance.now();
      for (let n = 0; n < 12; n++) {
        await lab.ask("many", "node1");
        // Each would be a write of its own.
        await sleep(500);
      }
      /** The first, that it is in use, and at most one of numbers in 15 s. */
      const assertFewWrites = async () => {
        const writes = await updates("many");
        const most = 2 + Math.ceil((performance.now() - startMs) / 15_000);
        assert.ok(writes <= most, `${writes} writes, not ${most}`);
      };
      await assertFewWrites();
      await eventually("the last numbers", async () => {
        const { status } = await lab.pool("many");
        return status?.blocks?.allocated === 12;
      });
      await assertFewWrites();
    },
  );

  await t.step("after kill -9, when the lease has run out", async () => {
    const former = await holderOf(lab);
    const since = new Date();
    await first.kill9();
    const names = Array.from({ length: 25 }, (_, i) => `pending-${i}`);
    for (const name of names) await lab.createRequest(name, "many", "node1");
    await assertTakenOver(lab, {
      since: since.getTime(),
      within: LEASE_MS + CLAIM_MS,
      block: "v4-1",
      former,
    });
    for (const name of names) {
      assert.match(await lab.answer(name), /^block many-/);
    }
    assert.deepEqual(await listsSince(lab, since), []);
    // A list that is cut off is made again.
    const lists = (await requestsOf(lab, "list", since))
      .filter(({ code }) => code === 200);
    assert.equal(lists.length, 1, "one for all that is pending");
    await eventually("the numbers of a pool", async () => {
      return await updates("v4", since) > 0;
    });
    assert.equal(await updates("quiet", since), 0, "nothing new to say");
  });

  await t.step("at once, when the leader gives its lease back", async () => {
    await using _third = await standby(lab);
    const former = await holderOf(lab);
    const since = new Date();
    await second[Symbol.asyncDispose]();
    await assertTakenOver(lab, {
      since: Date.now(),
      within: CLAIM_MS,
      block: "v4-2",
      former,
    });
    assert.deepEqual(await listsSince(lab, since), []);
  });
});
