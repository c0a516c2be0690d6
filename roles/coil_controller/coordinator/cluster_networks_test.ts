import assert from "node:assert/strict";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { CidrsUnknownError } from "./cidr_list.ts";
import { kubeadmCidrs, managerCidrs } from "./cluster_networks.ts";

const KUBEADM: readonly (readonly [string, readonly string[]])[] = [
  ["podSubnet: 10.244.0.0/16", ["10.244.0.0/16"]],
  ["podSubnet: 10.244.0.0/16,fd00::/48", ["10.244.0.0/16", "fd00::/48"]],
  ['podSubnet: "10.244.0.0/16, fd00::/48"', ["10.244.0.0/16", "fd00::/48"]],
  ["podSubnet: 10.244.0.0/16,x,10.244.0.0/16", ["10.244.0.0/16"]],
  ['podSubnet: ""', []],
  ["dnsDomain: cluster.local", []],
];

for (const [line, expected] of KUBEADM) {
  Deno.test(`kubeadmCidrs() reads ${line}`, () => {
    const text =
      `apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking:\n  ${line}\n  serviceSubnet: 10.96.0.0/12\n`;
    const data = { ClusterConfiguration: text };
    assert.deepEqual(kubeadmCidrs(data, "pods"), expected);
    assert.deepEqual(kubeadmCidrs(data, "services"), ["10.96.0.0/12"]);
  });
}

Deno.test("kubeadmCidrs() finds nothing where nothing is said", () => {
  for (
    const data of [
      undefined,
      {},
      { ClusterConfiguration: "" },
      { ClusterConfiguration: "kind: ClusterConfiguration" },
    ]
  ) {
    assert.deepEqual(kubeadmCidrs(data, "pods"), []);
  }
});

const MALFORMED: Readonly<Record<string, RegExp>> = {
  "networking: [": /^ConfigMap kube-system\/kubeadm-config is not valid YAML/,
  "networking: none": /has no valid networking/,
  "networking: { podSubnet: 10.244.0.0 }": /no valid CIDR: "10.244.0.0"/,
  "networking: { podSubnet: 10 }": /no valid CIDR: "10"/,
};

Deno.test("kubeadmCidrs() does not take what is malformed for nothing", () => {
  for (const [text, reason] of Object.entries(MALFORMED)) {
    assert.throws(
      () => kubeadmCidrs({ ClusterConfiguration: text }, "pods"),
      (error) =>
        error instanceof CidrsUnknownError && reason.test(error.message),
      text,
    );
  }
});

function manager(command: string[], args?: string[]): V1Pod {
  const container = { name: "kube-controller-manager", command };
  return { spec: { containers: [{ ...container, ...args && { args } }] } };
}

Deno.test("managerCidrs() reads flags in both spellings, of command and arguments", () => {
  const pods = ["10.244.0.0/16", "fd00::/48"];
  const services = ["10.96.0.0/12"];
  for (
    const pod of [
      manager([
        "kube-controller-manager",
        "--cluster-cidr=10.244.0.0/16,fd00::/48",
        "--service-cluster-ip-range=10.96.0.0/12",
      ]),
      manager(["kube-controller-manager"], [
        ...["--cluster-cidr", "10.244.0.0/16,fd00::/48"],
        ...["--service-cluster-ip-range", "10.96.0.0/12"],
      ]),
      // As with Go's flags, the last one counts.
      manager(["--cluster-cidr=10.1.0.0/16"], [
        "--cluster-cidr=10.244.0.0/16,fd00::/48",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--cluster-cidr-max=10.9.0.0/16",
      ]),
    ]
  ) {
    assert.deepEqual(managerCidrs(pod, "pods"), pods);
    assert.deepEqual(managerCidrs(pod, "services"), services);
  }
  for (const pod of [manager(["--cluster-cidr"]), {}]) {
    assert.deepEqual(managerCidrs(pod, "pods"), []);
  }
});
