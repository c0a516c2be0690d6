import assert from "node:assert/strict";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { kubeadmNetworks, managerNetworks } from "./cluster_networks.ts";

const KUBEADM: readonly (readonly [string, readonly string[]])[] = [
  ["podSubnet: 10.244.0.0/16", ["10.244.0.0/16"]],
  ["podSubnet: 10.244.0.0/16,fd00::/48", ["10.244.0.0/16", "fd00::/48"]],
  ['podSubnet: "10.244.0.0/16, fd00::/48"', ["10.244.0.0/16", "fd00::/48"]],
  ["podSubnet: 10.244.0.0/16,x,10.244.0.0/16", ["10.244.0.0/16"]],
  ["podSubnet: 10.244.0.0", []],
  ["podSubnet: 10", []],
  ["dnsDomain: cluster.local", []],
];

for (const [line, expected] of KUBEADM) {
  Deno.test(`kubeadmNetworks() reads ${line}`, () => {
    const text =
      `apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking:\n  ${line}\n  serviceSubnet: 10.96.0.0/12\n`;
    assert.deepEqual(kubeadmNetworks({ ClusterConfiguration: text }), {
      pods: expected,
      services: ["10.96.0.0/12"],
    });
  });
}

Deno.test("kubeadmNetworks() finds nothing where nothing is said", () => {
  for (
    const data of [
      undefined,
      {},
      { ClusterConfiguration: "" },
      { ClusterConfiguration: "networking: [" },
      { ClusterConfiguration: "networking: none" },
      { ClusterConfiguration: "kind: ClusterConfiguration" },
    ]
  ) {
    assert.equal(kubeadmNetworks(data), undefined);
  }
});

function manager(command: string[], args?: string[]): V1Pod {
  const container = { name: "kube-controller-manager", command };
  return { spec: { containers: [{ ...container, ...args && { args } }] } };
}

Deno.test("managerNetworks() reads flags in both spellings, of command and arguments", () => {
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
    assert.deepEqual(managerNetworks(pod), { pods, services });
  }
  const none = { pods: [], services: [] };
  assert.deepEqual(managerNetworks(manager(["--cluster-cidr"])), none);
  assert.deepEqual(managerNetworks({}), none);
});
