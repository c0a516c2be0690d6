import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import { parse } from "yaml";
import type { SpiderCoordinator } from "../../lib/api/mod.ts";
import { documentOf, readShared } from "../../lib/coordinator/mod.ts";
import { ControlPlane } from "../lab/mod.ts";
import { untilAllowed } from "./access.ts";
import { assertRefused, columnsOf } from "./crds.ts";
import {
  installSpiderCoordinators,
  SPIDER_PATH,
  spiderRefusals,
} from "./coordinator_lab.ts";

const VIEWER = new URL(
  "../../deploy/coordinator/coil_viewer_coordinator_rbac.yaml",
  import.meta.url,
).pathname;

interface Case {
  readonly name: string;
  readonly spec: JsonObject;
  /** Part of each line expected; none: accepted. */
  readonly refused?: readonly string[];
}

const route = (dst: string, gw: string): JsonObject => ({
  policyRoutes: [{ dst, gw }],
});

const CASES: readonly Case[] = [
  ...["auto", "underlay", "overlay", "disable", "disabled"].map((mode) => ({
    name: `mode ${mode}`,
    spec: { mode },
  })),
  {
    name: "an unknown mode",
    spec: { mode: "other" },
    refused: ['spec.mode: Unsupported value: "other"'],
  },
  {
    name: "an unknown podCIDRType",
    spec: { podCIDRType: "flannel" },
    refused: ["spec.podCIDRType: Unsupported value"],
  },
  {
    name: "destinations as CIDRs and addresses",
    spec: { hijackCIDR: ["169.254.0.0/16", "10.1.2.3", "fd00::1"] },
  },
  {
    name: "a destination that is neither",
    spec: { hijackCIDR: ["10.0.0.0/8", "x"] },
    refused: ["spec.hijackCIDR[1]"],
  },
  { name: "a route to an address", spec: route("198.18.0.1", "10.6.0.1") },
  {
    name: "a route of both families",
    spec: route("198.18.0.0/15", "fd00::1"),
    refused: ["dst and gw must be of one IP family"],
  },
  {
    name: "a route without a usable gateway",
    spec: route("198.18.0.0/15", "gate"),
    refused: ["gw: Invalid value"],
  },
  { name: "a MAC prefix", spec: { podMACPrefix: "0A:1b" } },
  { name: "no MAC prefix", spec: { podMACPrefix: "" } },
  ...["0a-1b", "0a:1", "zz:zz"].map((podMACPrefix) => ({
    name: `the MAC prefix ${podMACPrefix}`,
    spec: { podMACPrefix },
    refused: [
      "not a valid MAC prefix",
      ...podMACPrefix === "zz:zz" ? ["not a unicast MAC"] : [],
    ],
  })),
  {
    name: "a multicast MAC prefix",
    spec: { podMACPrefix: "01:10" },
    refused: ["not a unicast MAC"],
  },
  { name: "rp_filter left alone", spec: { podRPFilter: -1 } },
  {
    name: "rp_filter 3",
    spec: { podRPFilter: 3 },
    refused: ["spec.podRPFilter: Invalid value: 3"],
  },
  {
    name: "a negative queue length",
    spec: { txQueueLen: -1 },
    refused: ["spec.txQueueLen: Invalid value: -1"],
  },
  {
    name: "MTU 0",
    spec: { vethMTU: 0 },
    refused: ["spec.vethMTU: Invalid value: 0"],
  },
  {
    name: "the kernel's main table",
    spec: { hostRuleTable: 254 },
    refused: ["the kernel's own"],
  },
  { name: "a link address", spec: { vethLinkAddress: "169.254.200.1" } },
  {
    name: "an IPv6 link address",
    spec: { vethLinkAddress: "fd00::1" },
    refused: ["it must be an IPv4 address"],
  },
  ...["0.0.0.0", "127.0.0.1", "224.0.0.5", "255.255.255.255"].map((
    vethLinkAddress,
  ) => ({
    name: `the link address ${vethLinkAddress}`,
    spec: { vethLinkAddress },
    refused: ["it must be the address of one machine"],
  })),
  {
    name: "the most and longest probes",
    spec: { detectOptions: { retries: 10, interval: "5s", timeout: "0.5s" } },
  },
  {
    name: "too many probes",
    spec: { detectOptions: { retries: 11 } },
    refused: ["spec.detectOptions.retries: Invalid value: 11"],
  },
  ...["1m", "100", "x", "5.1s", "5001ms"].map((interval) => ({
    name: `probes ${interval} apart`,
    spec: { detectOptions: { interval } },
    refused: ["it must be one such as 100ms or 1s, at most 5s"],
  })),
  {
    name: "fields of Spiderpool's earlier versions",
    spec: {
      detectGateway: false,
      detectIPConflict: false,
      hostRPFilter: 0,
      detectOptions: { retries: 3, interval: "1s", timeout: "1s" },
    },
  },
];

/** As Spiderpool's chart makes it, and as its documentation has it. */
const MANIFEST = `
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderCoordinator
metadata:
  name: default
  finalizers: [spiderpool.spidernet.io]
spec:
  detectGateway: false
  detectIPConflict: false
  hijackCIDR: [169.254.0.0/16]
  hostRPFilter: 0
  hostRuleTable: 500
  mode: auto
  podCIDRType: calico
  podDefaultRouteNIC: ""
  podMACPrefix: ""
  tunePodRoutes: true
  txQueueLen: 0
  vethLinkAddress: ""
`;

Deno.test("the API server refuses what a SpiderCoordinator must not be", async (t) => {
  await using plane = await ControlPlane.start({ name: "crdspider" });
  await installSpiderCoordinators(plane);
  const get = async (name: string) =>
    await plane.request("GET", `${SPIDER_PATH}/${name}`) as SpiderCoordinator;

  await t.step("a manifest of Spiderpool is taken as it is", async () => {
    const manifest = parse(MANIFEST);
    assertRefused(await spiderRefusals(plane, manifest));
    assert.deepEqual((await get("default")).spec, {
      ...manifest.spec,
      podRPFilter: 0,
    });
  });

  await t.step("an empty one has the defaults", async () => {
    assertRefused(
      await spiderRefusals(plane, {
        ...parse(MANIFEST),
        spec: undefined,
        metadata: { name: "empty" },
      }),
    );
    assert.deepEqual((await get("empty")).spec, {
      mode: "auto",
      podCIDRType: "auto",
      tunePodRoutes: true,
      hostRuleTable: 500,
      podRPFilter: 0,
      txQueueLen: 0,
    });
  });

  await t.step("kubectl shows what is known", async () => {
    assert.deepEqual(await columnsOf(plane, "scc"), [
      "NAME",
      "MODE",
      "PHASE",
      "SERVICE-CIDRS",
      "POD-CIDRS",
      "REASON",
      "AGE",
    ]);
  });

  await t.step("who may view the cluster may read it", async () => {
    await plane.kubectl("apply", "-f", VIEWER);
    const role = "coil-spidercoordinator-viewer";
    for (const part of ["view", "edit", "admin"]) {
      const label = `rbac.authorization.k8s.io/aggregate-to-${part}=true`;
      const names = await plane.kubectl(
        ...["get", "clusterroles", "-l", label, "-o", "name"],
      );
      assert.ok(names.includes(`/${role}\n`), names);
    }
    const bind = ["create", "clusterrolebinding", role];
    await plane.kubectl(...bind, `--clusterrole=${role}`, "--user=reader");
    await untilAllowed(plane, {
      user: "reader",
      verb: "list",
      group: "spiderpool.spidernet.io",
      resource: "spidercoordinators",
    });
    const kubeconfig = await plane.kubeconfigFor({ user: "reader" });
    const as = `--kubeconfig=${kubeconfig}`;
    assert.match(await plane.kubectl("get", "scc", as), /^default /m);
    await assert.rejects(plane.kubectl("delete", "scc", "empty", as));
  });

  for (const [i, { name, spec, refused }] of CASES.entries()) {
    const verb = refused === undefined ? "accepted" : "refused";
    await t.step(`${name}: ${verb}`, async () => {
      const made = {
        ...parse(MANIFEST),
        metadata: { name: `case-${i}` },
        spec,
      };
      assertRefused(await spiderRefusals(plane, made), refused);
      if (refused !== undefined) return;
      // What the API server lets in the plugin can use.
      const status = { phase: "Synced" };
      const resource = { ...await get(`case-${i}`), status };
      const { document, refused: reason } = documentOf(resource);
      assert.equal(reason, undefined);
      readShared(document);
    });
  }
});
