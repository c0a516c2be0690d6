import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import type {
  SpiderCoordinator,
  SpiderCoordinatorStatus,
} from "../../lib/api/mod.ts";
import type { V1Lease } from "../../lib/kube/mod.ts";
import { COORDINATOR_LEASE } from "../../lib/names/mod.ts";
import { type ControlPlane, eventually, startCoilPlane } from "../lab/mod.ts";
import { kubeconfigText } from "../lab/kubeconfig.ts";
import { usedRights } from "../lab/rights_log.ts";
import { compareRights, grantedTo } from "../runner/rights.ts";
import {
  ControllerLab,
  controllerWith,
  type RunningController,
} from "./controller_testing.ts";
import {
  setSpiderStatus,
  SPIDER_PATH,
  spiderCoordinator,
} from "./coordinator_lab.ts";

const COORDINATOR =
  new URL("../../deploy/coordinator", import.meta.url).pathname;
const MERGE = { contentType: "application/merge-patch+json" };
const USER = "system:serviceaccount:kube-system:coil-controller";
const SYSTEM = "/api/v1/namespaces/kube-system";

/** A controller with the rights of the manifests, and what it makes of the cluster. */
class Stage {
  readonly plane: ControlPlane;

  constructor(plane: ControlPlane) {
    this.plane = plane;
  }

  async controller(): Promise<RunningController> {
    const { plane } = this;
    const token = await plane.serviceAccountToken({
      namespace: "kube-system",
      name: "coil-controller",
    });
    const admin = JSON.parse(await Deno.readTextFile(plane.kubeconfig));
    const { cluster } = admin.clusters[0];
    const kubeconfig = `${plane.runDir}/coil-controller.kubeconfig`;
    await Deno.writeTextFile(
      kubeconfig,
      kubeconfigText(cluster.server, {
        caFile: cluster["certificate-authority"],
        user: { token },
      }),
    );
    return controllerWith([
      ...["--enable-ipam=false", "--enable-egress=false"],
      "--enable-coordinator",
    ], { kubeconfig, networksIntervalMs: 200 });
  }

  /** Who has the lease of the coordinator's part. */
  async holder(): Promise<string> {
    const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    const lease = await this.plane.request(
      "GET",
      `${leases}/${COORDINATOR_LEASE}`,
    ) as V1Lease;
    return lease.spec?.holderIdentity ?? "";
  }

  async resource(): Promise<SpiderCoordinator> {
    const path = `${SPIDER_PATH}/default`;
    return await this.plane.request("GET", path) as SpiderCoordinator;
  }

  /** Waits for a status with these fields. */
  async until(expected: SpiderCoordinatorStatus): Promise<void> {
    let seen: SpiderCoordinatorStatus = {};
    try {
      await eventually(JSON.stringify(expected), async () => {
        seen = (await this.resource()).status ?? {};
        return Object.entries(expected).every(([key, value]) =>
          JSON.stringify(seen[key as keyof typeof seen]) ===
            JSON.stringify(value)
        );
      });
    } catch (cause) {
      throw new Error(`Cannot go on: ${JSON.stringify(seen)}`, { cause });
    }
  }

  async setType(podCIDRType: string): Promise<void> {
    const spec = { podCIDRType };
    await this.plane.request(
      "PATCH",
      `${SPIDER_PATH}/default`,
      { spec },
      MERGE,
    );
  }

  async configMap(name: string, data: Record<string, string>): Promise<void> {
    await this.plane.apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { namespace: "kube-system", name },
      data,
    });
  }

  async events(reason: string): Promise<readonly string[]> {
    const list = await ControllerLab.on(this.plane).events("default");
    return list.filter((event) => event.reason === reason)
      .map(({ message }) => message);
  }
}

/** A definition that takes everything, as another network plugin installs its own. */
function foreignCrd(
  group: string,
  names: {
    readonly version: string;
    readonly plural: string;
    readonly kind: string;
  },
): unknown {
  const { version, plural, kind } = names;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Cluster",
      names: {
        plural,
        singular: kind.toLowerCase(),
        kind,
        listKind: `${kind}List`,
      },
      versions: [{
        name: version,
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: "object",
            "x-kubernetes-preserve-unknown-fields": true,
          },
        },
      }],
    },
  };
}

async function establish(plane: ControlPlane, crd: unknown): Promise<void> {
  await plane.apply(crd);
  await plane.definitionsEstablished();
}

function calicoPool(name: string, spec: JsonObject): unknown {
  return {
    apiVersion: "crd.projectcalico.org/v1",
    kind: "IPPool",
    metadata: { name },
    spec,
  };
}

Deno.test("coil-controller fills the status of SpiderCoordinator", async (t) => {
  await using plane = await startCoilPlane({
    name: "ctrlspider",
    audit: "metadata",
  });
  const stage = new Stage(plane);
  const controller = await stage.controller();
  const services = await serviceCidrsOf(plane);

  await t.step(
    "a managed cluster is ready at once, though nothing says where its pods are",
    async () => {
      await plane.kubectl("apply", "-k", COORDINATOR);
      await plane.definitionsEstablished();
      await plane.apply(spiderCoordinator({}));
      await stage.until({
        phase: "Synced",
        reason: "",
        overlayPodCIDR: [],
        serviceCIDR: services,
      });
    },
  );

  await t.step("ServiceCIDRs come and go", async () => {
    await plane.apply({
      apiVersion: "networking.k8s.io/v1",
      kind: "ServiceCIDR",
      metadata: { name: "more" },
      spec: { cidrs: ["10.77.0.0/16"] },
    });
    await stage.until({ serviceCIDR: [...services, "10.77.0.0/16"] });
    await plane.kubectl("delete", "servicecidr", "more", "--wait=false");
    await stage.until({ serviceCIDR: services });
  });

  await t.step("auto: kubeadm-config, and before it Coil's pools", async () => {
    const networking = "networking:\n  podSubnet: '10.244.0.0/16,fd00::/48'\n";
    await stage.configMap("kubeadm-config", {
      ClusterConfiguration: networking,
    });
    await stage.until({ overlayPodCIDR: ["10.244.0.0/16", "fd00::/48"] });
    await stage.configMap("kubeadm-config", { ClusterConfiguration: "n: [" });
    await stage.until({
      phase: "Synced",
      overlayPodCIDR: ["10.244.0.0/16", "fd00::/48"],
      reason:
        "the last known values stay in force: ConfigMap kube-system/kubeadm-config is not valid YAML: BAD_INDENT",
    });
    await stage.configMap("kubeadm-config", {
      ClusterConfiguration: networking,
    });
    await ControllerLab.on(plane).createPool("default", {
      subnets: [{ ipv4: "10.2.0.0/16", ipv6: "fd02::/112" }],
    });
    await stage.until({ overlayPodCIDR: ["10.2.0.0/16", "fd02::/112"] });
  });

  await t.step(
    "auto: Cilium's configuration, and before it Calico's pools",
    async () => {
      await stage.configMap("cilium-config", {
        ipam: "cluster-pool",
        "cluster-pool-ipv4-cidr": "10.3.0.0/16",
      });
      await stage.until({ overlayPodCIDR: ["10.3.0.0/16"] });
      await establish(
        plane,
        foreignCrd("crd.projectcalico.org", {
          version: "v1",
          plural: "ippools",
          kind: "IPPool",
        }),
      );
      await plane.apply(
        calicoPool("off", { cidr: "10.8.0.0/16", disabled: true }),
        calicoPool("v4", { cidr: "10.4.0.0/16" }),
      );
      await stage.until({ overlayPodCIDR: ["10.4.0.0/16"] });
      await plane.apply(
        calicoPool("v4", { cidr: "10.4.0.0/16", disabled: true }),
      );
      await stage.until({ overlayPodCIDR: ["10.3.0.0/16"] });
    },
  );

  await t.step(
    "the type says where to look, and its change has an Event",
    async () => {
      await stage.setType("calico");
      await stage.until({ overlayPodCIDR: [], phase: "Synced" });
      await stage.setType("cluster");
      await stage.until({ overlayPodCIDR: ["10.244.0.0/16", "fd00::/48"] });
      await stage.setType("none");
      await stage.until({ overlayPodCIDR: [], reason: "" });
      await eventually("the Events", async () => {
        const reported = await stage.events("PodCIDRTypeChanged");
        return reported.includes("Pod CIDR type changed from auto to calico") &&
          reported.includes("Pod CIDR type changed from cluster to none");
      });
    },
  );

  await t.step("multi-pool: the pools of Cilium", async () => {
    await stage.setType("cilium");
    // Which are the last known values then.
    await stage.until({ overlayPodCIDR: ["10.3.0.0/16"] });
    await stage.configMap("cilium-config", { ipam: "multi-pool" });
    await stage.until({
      phase: "Synced",
      reason:
        "the last known values stay in force: the API server has no CiliumPodIPPools",
      overlayPodCIDR: ["10.3.0.0/16"],
    });
    await establish(
      plane,
      foreignCrd("cilium.io", {
        version: "v2alpha1",
        plural: "ciliumpodippools",
        kind: "CiliumPodIPPool",
      }),
    );
    await plane.apply({
      apiVersion: "cilium.io/v2alpha1",
      kind: "CiliumPodIPPool",
      metadata: { name: "default" },
      spec: {
        ipv4: { cidrs: ["10.5.0.0/16"] },
        ipv6: { cidrs: ["fd05::/64"] },
      },
    });
    await stage.until({
      overlayPodCIDR: ["10.5.0.0/16", "fd05::/64"],
      reason: "",
    });
  });

  await t.step(
    "what is not known keeps its last value, and of a new resource it is not ready",
    async () => {
      await plane.kubectl("delete", "-n=kube-system", "configmap", "--all");
      await stage.until({
        phase: "Synced",
        overlayPodCIDR: ["10.5.0.0/16", "fd05::/64"],
        reason:
          "the last known values stay in force: there is no ConfigMap kube-system/cilium-config",
      });
      await plane.request("DELETE", `${SPIDER_PATH}/default`);
      await plane.apply(spiderCoordinator({ podCIDRType: "cluster" }));
      await stage.until({
        phase: "NotReady",
        overlayPodCIDR: [],
        reason:
          "cannot find the pod CIDRs: neither ConfigMap kube-system/kubeadm-config nor a pod of kube-controller-manager has it",
      });
      await eventually("an Event", async () => {
        const reported = await stage.events("CIDRsUnknown");
        return reported.some((message) =>
          message.startsWith("cannot find the pod")
        );
      });
      await plane.request("POST", `${SYSTEM}/pods`, {
        metadata: {
          name: "manager",
          labels: { component: "kube-controller-manager" },
        },
        spec: {
          containers: [{
            name: "kube-controller-manager",
            image: "none",
            command: [
              "kube-controller-manager",
              "--cluster-cidr",
              "10.6.0.0/16",
            ],
          }],
        },
      });
      await stage.until({ phase: "Synced", overlayPodCIDR: ["10.6.0.0/16"] });
    },
  );

  await t.step("another one's SpiderCoordinator is left alone", async () => {
    const other = {
      ...spiderCoordinator({}) as object,
      metadata: { name: "b" },
    };
    await plane.apply(other);
    const get = async () =>
      await plane.request("GET", `${SPIDER_PATH}/b`) as SpiderCoordinator;
    await stage.setType("none");
    await stage.until({ overlayPodCIDR: [] });
    assert.equal((await get()).status, undefined);
  });

  await t.step(
    "an admin's edit of the status is undone, and it is left to a controller that keeps writing",
    async () => {
      const foreign = { serviceCIDR: ["10.99.0.0/16"] };
      await setSpiderStatus(plane, foreign);
      await stage.until({ serviceCIDR: services });
      await eventually("the end of it", async () => {
        const { status } = await stage.resource();
        if (`${status?.serviceCIDR}` === `${services}`) {
          await setSpiderStatus(plane, foreign);
        }
        return (await stage.events("StatusOfAnotherController")).length === 1;
      });
      await stage.until(foreign);
      await stage.setType("auto");
      await stage.until({ serviceCIDR: services });
    },
  );

  await t.step("its rights are what it uses", async () => {
    await using _next = await stage.controller();
    const requests = await plane.auditRequests({ user: USER });
    const used = usedRights(requests);
    const granted = await grantedTo(
      "kube-system:coil-controller",
      "coordinator",
    );
    const { spare } = compareRights("kube-system:coil-controller", {
      used,
      granted,
    });
    assert.deepEqual(spare, []);
    const refused = used.filter(({ isGranted }) => !isGranted);
    assert.deepEqual(refused, []);
  });

  await t.step(
    "a standby goes on when the leader ends, by a lease of its own",
    async () => {
      const first = await stage.holder();
      await using _standby = await stage.controller();
      await stage.setType("none");
      await stage.until({ overlayPodCIDR: [] });
      assert.equal(await stage.holder(), first);
      await controller[Symbol.asyncDispose]();
      await stage.setType("cluster");
      await stage.until({ overlayPodCIDR: ["10.6.0.0/16"] });
      assert.notEqual(await stage.holder(), first);
    },
  );

  await controller[Symbol.asyncDispose]();
});

async function serviceCidrsOf(plane: ControlPlane): Promise<string[]> {
  const path = "/apis/networking.k8s.io/v1/servicecidrs";
  const list = await plane.request("GET", path) as {
    readonly items: readonly { readonly spec: { readonly cidrs: string[] } }[];
  };
  return list.items.flatMap(({ spec }) => spec.cidrs);
}
