import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import {
  documentOf,
  NOTHING_SHARED,
  type Outside,
  readShared,
  type SharedDocument,
} from "../../lib/coordinator/mod.ts";
import type { SpiderCoordinatorStatus } from "../../lib/api/mod.ts";
import {
  CoordinatorLab,
  type LabPod,
  type NicSpec,
  SERVICES,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };

/** What a call is configured with: the lab's own Service CIDRs are left out. */
const UNSET = { serviceCIDR: [] };

function shared(document: SharedDocument): (outside: Outside) => Outside {
  return (outside) => ({ ...outside, shared: () => readShared(document) });
}

/** The document that coild makes of a SpiderCoordinator. */
function ofResource(
  spec: JsonObject,
  status: SpiderCoordinatorStatus,
): SharedDocument {
  return documentOf({
    apiVersion: "spiderpool.spidernet.io/v2beta1",
    kind: "SpiderCoordinator",
    metadata: { name: "default" },
    spec,
    status,
  }).document;
}

netnsTest(
  "coordinator: without any defaults ADD fails with the reason and changes nothing, and DEL, CHECK and GC work",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([ETH0]);
    const before = [await stateOf(pod.netns), await stateOf(lab.host)];
    lab.change = shared(NOTHING_SHARED);
    assert.equal(
      await lab.refusal("ADD", pod, { config: UNSET }),
      "11 coordinator config not found",
    );
    lab.change = shared(
      ofResource({ podCIDRType: "cluster" }, {
        phase: "NotReady",
        reason: "x",
      }),
    );
    assert.equal(
      await lab.refusal("ADD", pod, { config: UNSET }),
      "11 spidercoordinator: default no ready",
    );
    assert.equal(
      await lab.refusal("STATUS", pod, { config: UNSET }),
      "50 spidercoordinator: default no ready",
    );
    assert.deepEqual(
      [await stateOf(pod.netns), await stateOf(lab.host)],
      before,
    );
    lab.change = shared(
      ofResource({}, { phase: "Synced", serviceCIDR: [SERVICES.ipv4] }),
    );
    await lab.ok("STATUS", pod, { config: UNSET });
    await lab.ok("ADD", pod, { config: UNSET });
    assert.match(
      await pod.netns.ip("route", "show", SERVICES.ipv4),
      /dev veth0/,
    );
    // The defaults that were known are gone, and a call that needs them fails.
    lab.change = (outside) => ({
      ...shared(NOTHING_SHARED)(outside),
      annotationsOf: () => Promise.reject(new Error("asked")),
    });
    await lab.ok("CHECK", pod, { config: UNSET });
    lab.change = (outside) => ({
      ...outside,
      shared: () => {
        throw new Error("asked");
      },
    });
    const valid = [{ containerID: pod.containerId, ifname: "eth0" }];
    const gc = { "cni.dev/valid-attachments": valid };
    await lab.ok("GC", pod, { config: { ...UNSET, ...gc } });
    await lab.ok("DEL", pod, { config: UNSET });
    await assert.rejects(lab.ok("ADD", pod), /asked/);
  },
);

netnsTest(
  "coordinator: CHECK without defaults compares what they do not decide",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const spec = { hostRuleTable: 200, podRPFilter: 1 };
    const known = shared(
      ofResource(spec, { phase: "Synced", serviceCIDR: [SERVICES.ipv4] }),
    );
    lab.change = shared(
      ofResource({ mode: "disable" }, { phase: "Synced", serviceCIDR: [] }),
    );
    const disabled = await lab.joined([{ ...ETH0, number: 101 }]);
    lab.change = shared(NOTHING_SHARED);
    await lab.ok("CHECK", disabled, { config: UNSET });
    lab.change = known;
    assert.match(
      await lab.refusal("CHECK", disabled, { config: UNSET }),
      /"veth0" has no end on the host/,
    );
    const pod = await lab.joined([ETH0, NET1], { config: UNSET });
    const check = (ifname: string) => ({ ifname, config: UNSET });
    for (const change of [known, shared(NOTHING_SHARED)]) {
      lab.change = change;
      await lab.ok("CHECK", pod, check("eth0"));
      await lab.ok("CHECK", pod, check("net1"));
    }
    await pod.netns.ip("rule", "delete", "priority", "1000");
    const { stdout, exitCode } = await lab.call("CHECK", pod, check("net1"));
    assert.equal(exitCode, 1);
    assert.match(
      JSON.parse(stdout).details,
      /^this would repair it: ip -n POD rule add pref 1000 fwmark [^;]+$/,
    );
  },
);

netnsTest(
  "coordinator: what a call is configured with comes before what is shared",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([ETH0]);
    lab.change = shared(
      ofResource({ hostRuleTable: 200, txQueueLen: 77, vethMTU: 1300 }, {
        phase: "Synced",
        overlayPodCIDR: ["10.244.0.0/16"],
        serviceCIDR: ["10.9.0.0/16"],
      }),
    );
    await lab.ok("ADD", pod, { config: { vethMTU: 1400 } });
    assert.match(await lab.host.ip("rule"), /from all lookup 200/);
    assert.match(await pod.netns.ip("link", "show", "eth0"), /qlen 77/);
    assert.match(await pod.netns.ip("link", "show", "veth0"), /mtu 1400/);
    const routes = await pod.netns.ip("route");
    assert.match(routes, /10\.244\.0\.0\/16 via \S+ dev veth0/);
    assert.ok(routes.includes(SERVICES.ipv4) && !routes.includes("10.9.0.0"));
  },
);

const ANNOTATION = "ipam.spidernet.io/default-route-nic";

/** Which of four sources says where the default route goes, shown by the error about what it says. */
async function chosen(
  lab: CoordinatorLab,
  pod: LabPod,
  sources: {
    readonly config?: string;
    readonly runtime?: string;
    readonly cached?: string;
  },
): Promise<string> {
  const { config, runtime, cached } = sources;
  lab.change = (outside) => ({
    ...shared(
      ofResource({ podDefaultRouteNIC: "resource0" }, { phase: "Synced" }),
    )(outside),
    annotationsOf: () =>
      Promise.resolve(
        cached === undefined ? undefined : { [ANNOTATION]: cached },
      ),
  });
  const annotations = {
    "io.kubernetes.cri.pod-annotations": { [ANNOTATION]: runtime },
  };
  const text = await lab.refusal("ADD", pod, {
    ifname: "net1",
    config: {
      ...config === undefined ? {} : { podDefaultRouteNic: config },
      ...runtime === undefined ? {} : { runtimeConfig: annotations },
    },
  });
  return /NIC: (\S+)/.exec(text)?.[1] ?? text;
}

netnsTest(
  "coordinator: configuration comes before the runtime's annotation, that before coild's, that before the resource",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([ETH0]);
    await lab.ok("ADD", pod);
    assert.deepEqual(lab.warnings, []);
    await lab.addNic(pod.netns, NET1);
    const all = { config: "config0", runtime: "runtime0", cached: "cached0" };
    const { config, runtime, cached } = all;
    assert.equal(await chosen(lab, pod, all), config);
    assert.equal(await chosen(lab, pod, { runtime, cached }), runtime);
    assert.equal(await chosen(lab, pod, { cached }), cached);
    assert.deepEqual(lab.warnings, []);
    assert.equal(await chosen(lab, pod, {}), "resource0");
    assert.match(lab.warnings.join(), /annotations are not known/);
  },
);
