// The sweep of ENIs: two replicas with the arguments and the rights of overlay
// vpc, a real API server, and EC2 as a process that goes by the IAM policy.
import assert from "node:assert/strict";
import type { V1Lease } from "../../lib/kube/mod.ts";
import {
  ENI_CLUSTER_TAG,
  ENI_INSTANCE_TAG,
  VPC_SWEEP_LEASE,
} from "../../lib/names/mod.ts";
import { Cloud } from "../lab/cloud/mod.ts";
import {
  byHand,
  cloudConfig,
  CLUSTER,
  INSTANCE,
  policyOf,
  SUBNET,
  tagging,
  withPolicy,
} from "../lab/cloud/testing.ts";
import { ControlPlane, eventually } from "../lab/mod.ts";
import { usedRights } from "../lab/rights_log.ts";
import { compareRights, grantedTo } from "../runner/rights.ts";
import { kustomize, parseManifests } from "./deploy_render.ts";
import {
  controllerWith,
  type RunningController,
} from "./controller_testing.ts";

const ACCOUNT = "kube-system:coil-controller";
const DELETE = "DeleteNetworkInterface";

/** What the overlay gives the account. */
const OF_RIGHTS = /^(ServiceAccount|(Cluster)?Role(Binding)?)\//;

class Stage implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly cloud: Cloud;
  readonly #stack: AsyncDisposableStack;
  #args: readonly string[] = [];

  private constructor(
    stack: AsyncDisposableStack,
    { plane, cloud }: Pick<Stage, "plane" | "cloud">,
  ) {
    this.#stack = stack;
    this.plane = plane;
    this.cloud = cloud;
  }

  static async start(): Promise<Stage> {
    await using stack = new AsyncDisposableStack();
    const audit = "metadata";
    const plane = stack.use(
      await ControlPlane.start({ name: "ctrlvpc", audit }),
    );
    const policy = await policyOf("coil-controller");
    const config = withPolicy(cloudConfig(), policy);
    const cloud = stack.use(await Cloud.start(config));
    const stage = new Stage(stack.move(), { plane, cloud });
    await stage.#install();
    return stage;
  }

  async #install(): Promise<void> {
    const rendered = parseManifests(await kustomize("overlays/vpc"));
    const rights = [...rendered].filter(([key]) => OF_RIGHTS.test(key));
    await this.plane.apply(...rights.map(([, object]) => object));
    const [container] = rendered.get("Deployment/coil-controller")?.spec
      ?.template?.spec.containers ?? [];
    this.#args = (container?.args ?? [])
      .map((arg) => arg.replace("$(COIL_CLUSTER_NAME)", CLUSTER));
  }

  /** Starts a replica. */
  async controller(): Promise<RunningController> {
    const { plane, cloud: { endpoints } } = this;
    const [namespace = "", name = ""] = ACCOUNT.split(":");
    const token = await plane.serviceAccountToken({ namespace, name });
    const kubeconfig = await plane.kubeconfigFor({ token });
    const env = new Map([
      ["AWS_ENDPOINT_URL_EC2", endpoints.ec2],
      ["AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoints.imds[INSTANCE] ?? ""],
    ]);
    return controllerWith(this.#args, {
      // Of egress only what this test is not about.
      enableEgress: false,
      kubeconfig,
      env,
      sweepAfterMs: 1_500,
    });
  }

  /** Leaves an ENI as a node does that dies after it was detached. */
  async leave(): Promise<string> {
    const tags = { [ENI_INSTANCE_TAG]: "i-gone", [ENI_CLUSTER_TAG]: CLUSTER };
    const answer = await byHand(this.cloud, "CreateNetworkInterface", {
      SubnetId: SUBNET,
      ...tagging(tags),
    });
    return answer.all("networkInterfaceId")[0] ?? "";
  }

  /** Waits until these were deleted, one after the other, and no other. */
  async deleted(enis: readonly string[]): Promise<void> {
    const deletions = async () =>
      (await this.cloud.ask.calls(0)).filter(({ call }) => call === DELETE)
        .map(({ parameters }) => parameters["NetworkInterfaceId"]);
    await eventually(
      `the deletion of ${enis}`,
      async () => (await deletions()).length >= enis.length,
    );
    assert.deepEqual(await deletions(), enis);
  }

  async holder(): Promise<string> {
    const path =
      `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/${VPC_SWEEP_LEASE}`;
    const lease = await this.plane.request("GET", path) as V1Lease;
    return lease.spec?.holderIdentity ?? "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

Deno.test("coil-controller's leader deletes ENIs that nodes have left, with the rights of overlay vpc", async (t) => {
  await using stage = await Stage.start();
  const first = await stage.controller();
  const left = [await stage.leave()];
  await stage.deleted(left);
  const leader = await stage.holder();
  await using _second = await stage.controller();

  await t.step("a standby deletes nothing", async () => {
    left.push(await stage.leave());
    await stage.deleted(left);
    assert.equal(await stage.holder(), leader);
  });

  await t.step("another replica takes over", async () => {
    await first[Symbol.asyncDispose]();
    left.push(await stage.leave());
    await stage.deleted(left);
    assert.notEqual(await stage.holder(), leader);
  });

  await t.step("its rights are what it uses", async () => {
    const user = `system:serviceaccount:${ACCOUNT}`;
    const granted = await grantedTo(ACCOUNT, "vpc");
    assert.ok(granted.size > 0);
    // Its Events come after what they tell of.
    await eventually("all rights to be used", async () => {
      const used = usedRights(await stage.plane.auditRequests({ user }));
      assert.deepEqual(used.filter(({ isGranted }) => !isGranted), []);
      assert.deepEqual(compareRights(ACCOUNT, { used, granted }).spare, []);
      return true;
    });
  });
});
