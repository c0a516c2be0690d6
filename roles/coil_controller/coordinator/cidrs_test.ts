import assert from "node:assert/strict";
import { CidrsUnknownError } from "./cidr_list.ts";
import type { NetworkKind } from "./cluster_networks.ts";
import { type Cidrs, podCidrs, serviceCidrs, type Sources } from "./cidrs.ts";

type Networks = Readonly<Record<NetworkKind, readonly string[]>>;

/** An error is what the source fails with. */
interface Answers {
  readonly kubeadm?: Networks | Error;
  readonly manager?: Networks;
  readonly cilium?: Readonly<Record<string, string>>;
  readonly ciliumPools?: string[];
  readonly calico?: string[] | Error;
  readonly pools?: string[];
  readonly serviceCidrs?: string[] | Error;
}

/** A cluster that has this and no more; what was asked of it. */
function cluster(answers: Answers): { sources: Sources; asked: string[] } {
  const asked: string[] = [];
  const answer = <K extends keyof Answers>(name: K) => {
    asked.push(name);
    const found = answers[name];
    return found instanceof Error
      ? Promise.reject(found)
      : Promise.resolve(found as Exclude<Answers[K], Error>);
  };
  const sources: Sources = {
    kubeadm: async (kind) => (await answer("kubeadm"))?.[kind] ?? [],
    manager: async (kind) => (await answer("manager"))?.[kind],
    cilium: () => answer("cilium"),
    ciliumPools: () => answer("ciliumPools"),
    calico: () => answer("calico"),
    pools: () => answer("pools"),
    serviceCidrs: () => answer("serviceCidrs"),
  };
  return { sources, asked };
}

const KUBEADM = { pods: ["10.244.0.0/16"], services: ["10.96.0.0/12"] };
const NOTHING = { pods: [], services: [] };

interface Case {
  readonly type?: string;
  readonly has: Answers;
  readonly found: Cidrs;
  readonly asked: string;
}

const unknown = (text: string): Cidrs => ({ unknown: text });
const MALFORMED = new CidrsUnknownError("it is malformed");
const NO_CLUSTER =
  "cannot find the pod CIDRs: neither ConfigMap kube-system/kubeadm-config nor a pod of kube-controller-manager has it";

const CASES: readonly Case[] = [
  { type: "none", has: { kubeadm: KUBEADM }, found: { cidrs: [] }, asked: "" },
  {
    type: "cluster",
    has: { kubeadm: KUBEADM, calico: ["10.1.0.0/16"] },
    found: { cidrs: KUBEADM.pods },
    asked: "kubeadm",
  },
  {
    type: "cluster",
    has: { kubeadm: NOTHING, manager: KUBEADM },
    found: { cidrs: KUBEADM.pods },
    asked: "kubeadm manager",
  },
  {
    type: "cluster",
    has: {},
    found: unknown(NO_CLUSTER),
    asked: "kubeadm manager",
  },
  {
    type: "calico",
    has: { calico: [], kubeadm: KUBEADM },
    found: { cidrs: [] },
    asked: "calico",
  },
  {
    type: "calico",
    has: { kubeadm: KUBEADM },
    found: unknown(
      "the API server has no IPPools of Calico (crd.projectcalico.org)",
    ),
    asked: "calico",
  },
  {
    type: "cilium",
    has: {
      cilium: {
        ipam: "cluster-pool",
        "cluster-pool-ipv4-cidr": " 10.0.0.0/8 ",
        "cluster-pool-ipv6-cidr": "fd00::/104\n",
      },
    },
    found: { cidrs: ["10.0.0.0/8", "fd00::/104"] },
    asked: "cilium",
  },
  {
    type: "cilium",
    has: { cilium: { ipam: "multi-pool" }, ciliumPools: ["10.5.0.0/16"] },
    found: { cidrs: ["10.5.0.0/16"] },
    asked: "cilium ciliumPools",
  },
  {
    type: "cilium",
    has: { cilium: { ipam: "multi-pool" } },
    found: unknown("the API server has no CiliumPodIPPools"),
    asked: "cilium ciliumPools",
  },
  {
    type: "cilium",
    has: { cilium: { ipam: "kubernetes" }, kubeadm: KUBEADM },
    found: { cidrs: KUBEADM.pods },
    asked: "cilium kubeadm",
  },
  {
    type: "cilium",
    has: { cilium: { ipam: "eni" } },
    found: unknown("unsupported Cilium IPAM mode: eni"),
    asked: "cilium",
  },
  {
    type: "cilium",
    has: {},
    found: unknown("there is no ConfigMap kube-system/cilium-config"),
    asked: "cilium",
  },
  {
    has: { calico: ["10.1.0.0/16"], cilium: {}, pools: ["10.2.0.0/16"] },
    found: { cidrs: ["10.1.0.0/16"] },
    asked: "calico",
  },
  {
    type: "",
    has: { calico: [], cilium: { "cluster-pool-ipv4-cidr": "10.0.0.0/8" } },
    found: { cidrs: ["10.0.0.0/8"] },
    asked: "calico cilium",
  },
  {
    type: "auto",
    has: { pools: ["10.2.0.0/16"], kubeadm: KUBEADM },
    found: { cidrs: ["10.2.0.0/16"] },
    asked: "calico cilium pools",
  },
  {
    type: "auto",
    has: { pools: [], kubeadm: KUBEADM },
    found: { cidrs: KUBEADM.pods },
    asked: "calico cilium pools kubeadm",
  },
  // A managed cluster.
  {
    type: "auto",
    has: {},
    found: { cidrs: [] },
    asked: "calico cilium pools kubeadm",
  },
  // What cannot be read is not absent.
  {
    has: { calico: MALFORMED },
    found: unknown("it is malformed"),
    asked: "calico",
  },
  {
    has: { kubeadm: MALFORMED },
    found: unknown("it is malformed"),
    asked: "calico cilium pools kubeadm",
  },
  {
    type: "cluster",
    has: { kubeadm: MALFORMED },
    found: unknown("it is malformed"),
    asked: "kubeadm manager",
  },
  {
    type: "cluster",
    has: { kubeadm: MALFORMED, manager: KUBEADM },
    found: { cidrs: KUBEADM.pods },
    asked: "kubeadm manager",
  },
  {
    has: { cilium: { "cluster-pool-ipv4-cidr": "10.0.0.0" } },
    found: unknown(
      'ConfigMap kube-system/cilium-config has no valid CIDR: "10.0.0.0"',
    ),
    asked: "calico cilium",
  },
  {
    type: "flannel",
    has: { kubeadm: KUBEADM },
    found: unknown(
      'podCIDRType "flannel" is not one that coil-controller knows',
    ),
    asked: "",
  },
];

for (const { type, has, found, asked } of CASES) {
  const what = `${type ?? "no type"} of ${JSON.stringify(has)}`;
  Deno.test(`podCidrs() looks up what the type needs: ${what}`, async () => {
    const { sources, asked: wereAsked } = cluster(has);
    assert.deepEqual(await podCidrs(sources, type), found);
    assert.equal(wereAsked.join(" "), asked);
  });
}

Deno.test("serviceCidrs() has what is served, else what the cluster was made with", async () => {
  const served = ["10.96.0.0/12", "fd00:96::/108"];
  const cases: readonly (readonly [Answers, readonly string[], string])[] = [
    [{ serviceCidrs: served, kubeadm: KUBEADM }, served, "serviceCidrs"],
    [
      { serviceCidrs: [], kubeadm: KUBEADM },
      KUBEADM.services,
      "serviceCidrs kubeadm",
    ],
    [
      { kubeadm: NOTHING, manager: KUBEADM },
      KUBEADM.services,
      "serviceCidrs kubeadm manager",
    ],
  ];
  for (const [has, cidrs, asked] of cases) {
    const { sources, asked: wereAsked } = cluster(has);
    assert.deepEqual(await serviceCidrs(sources), { cidrs });
    assert.equal(wereAsked.join(" "), asked);
  }
  assert.deepEqual(
    await serviceCidrs(cluster({ serviceCidrs: MALFORMED }).sources),
    unknown("it is malformed"),
  );
  const found = await serviceCidrs(cluster({}).sources);
  assert.match("unknown" in found ? found.unknown : "", /Service CIDRs/);
});
