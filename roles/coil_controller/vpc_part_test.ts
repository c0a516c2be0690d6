// The sweep against EC2 and the metadata service as a process.
import assert from "node:assert/strict";
import { TaskGroup } from "../../lib/async/mod.ts";
import { untilPasses } from "../../lib/async/testing.ts";
import {
  ENI_CLUSTER_TAG,
  ENI_INSTANCE_TAG,
  ENI_UNMANAGED_TAG,
} from "../../lib/names/mod.ts";
import { createRegistry } from "../../lib/telemetry/mod.ts";
import { Cloud } from "../../tests/lab/cloud/mod.ts";
import { assertTight } from "../../tests/lab/cloud/policy_testing.ts";
import {
  byHand,
  callEc2,
  cloudConfig,
  CLUSTER,
  formOf,
  INSTANCE,
  policyOf,
  ROLE_KEYS,
  SUBNET,
  tagging,
  withPolicy,
} from "../../tests/lab/cloud/testing.ts";
import { openVpcSweep } from "./vpc_part.ts";

const POLICY = await policyOf("coil-controller");
const DELETE = "DeleteNetworkInterface";
const DESCRIBE = "DescribeNetworkInterfaces";
const AFTER_MS = 1_000;

/** Tags that coild gives an ENI of the cluster. */
const OURS = {
  [ENI_INSTANCE_TAG]: "i-gone",
  [ENI_CLUSTER_TAG]: CLUSTER,
};

/** A cloud whose loose ENIs a leader deletes, with the rights of its policy alone. */
class SweepLab implements AsyncDisposable {
  readonly cloud: Cloud;
  #registry = createRegistry();
  readonly #group = new TaskGroup();

  private constructor(cloud: Cloud) {
    this.cloud = cloud;
  }

  static async start(): Promise<SweepLab> {
    const config = withPolicy(cloudConfig(), POLICY);
    return new SweepLab(await Cloud.start(config));
  }

  /** Begins to lead. */
  lead(region?: string): void {
    const { ec2, imds } = this.cloud.endpoints;
    const env = new Map([
      ["AWS_ENDPOINT_URL_EC2", ec2],
      ["AWS_EC2_METADATA_SERVICE_ENDPOINT", imds[INSTANCE] ?? ""],
      ["AWS_REGION", region ?? ""],
    ]);
    const registry = this.#registry = createRegistry();
    const sweepAfterMs = AFTER_MS;
    const sweep = openVpcSweep({
      cluster: CLUSTER,
      env,
      registry,
      sweepAfterMs,
    });
    this.#group.run("leader", sweep);
  }

  /** Makes an ENI as an operator does, and returns its ID. */
  async create(tags: Readonly<Record<string, string>>): Promise<string> {
    const answer = await byHand(this.cloud, "CreateNetworkInterface", {
      SubnetId: SUBNET,
      ...tagging(tags),
    });
    return answer.all("networkInterfaceId")[0] ?? "";
  }

  /** IDs of the ENIs that deletions have named, in their order. */
  async deletions(): Promise<string[]> {
    const calls = await this.cloud.ask.calls(0);
    return calls.filter(({ call }) => call === DELETE)
      .map(({ parameters }) => parameters["NetworkInterfaceId"] ?? "");
  }

  /** Names of the calls so far. */
  async calls(): Promise<string[]> {
    return (await this.cloud.ask.calls(0)).map(({ call }) => call);
  }

  /** Waits for so many more looks at EC2. */
  async looks(count: number): Promise<void> {
    const looked = async () =>
      (await this.calls()).filter((call) => call === DESCRIBE).length;
    const before = await looked();
    await untilPasses(async () => assert.ok(await looked() >= before + count));
  }

  async figure(name: string): Promise<string | undefined> {
    const lines = (await this.#registry.metrics()).split("\n");
    const found = lines.find((line) =>
      line.startsWith(`coil_controller_vpc_${name}`)
    );
    return found?.replace(/.* /, "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#group[Symbol.asyncDispose]();
    await this.cloud[Symbol.asyncDispose]();
  }
}

Deno.test("a leader deletes the ENIs that its cluster's nodes have left, and no other", async () => {
  await using lab = await SweepLab.start();
  const { [ENI_INSTANCE_TAG]: _, ...notOfCoild } = OURS;
  await lab.create({});
  await lab.create(notOfCoild);
  await lab.create({ ...OURS, [ENI_CLUSTER_TAG]: `${CLUSTER}-2` });
  await lab.create({ ...OURS, [ENI_UNMANAGED_TAG]: "true" });
  const attached = await lab.create(OURS);
  await byHand(lab.cloud, "AttachNetworkInterface", {
    NetworkInterfaceId: attached,
    InstanceId: INSTANCE,
    DeviceIndex: 1,
  });
  const left = [await lab.create(OURS), await lab.create(OURS)];
  lab.lead();
  await untilPasses(async () =>
    assert.deepEqual((await lab.deletions()).toSorted(), left.toSorted())
  );
  await lab.looks(5);
  assert.equal((await lab.deletions()).length, 2);
  assert.equal(await lab.figure("deleted_enis_total"), "2");
  assert.equal(await lab.figure("sweep_errors_total"), "0");
  assert.equal(await lab.figure("loose_enis{"), "0");
});

Deno.test("an ENI is deleted only after it had no instance for the whole time", async () => {
  await using lab = await SweepLab.start();
  const beganMs = performance.now();
  const eni = await lab.create(OURS);
  lab.lead();
  await untilPasses(async () =>
    assert.equal(await lab.figure("loose_enis{"), "1")
  );
  // The time is looked at when it was seen: a busy machine may see it late.
  await untilPasses(async () => assert.deepEqual(await lab.deletions(), [eni]));
  assert.ok(performance.now() - beganMs >= AFTER_MS);
});

Deno.test("what EC2 refuses is tried again, and keeps no other ENI", async () => {
  await using lab = await SweepLab.start();
  const code = "OperationNotPermitted";
  await lab.cloud.ask.fault({ call: DELETE, kind: "error", code, times: 1 });
  const enis = [await lab.create(OURS), await lab.create(OURS)].toSorted();
  lab.lead();
  const [first = "", second = ""] = enis;
  await untilPasses(async () =>
    assert.deepEqual(await lab.deletions(), [first, second, first])
  );
  assert.equal(await lab.figure("sweep_errors_total"), "1");
  await untilPasses(async () =>
    assert.equal(await lab.figure("deleted_enis_total"), "2")
  );
});

Deno.test("without the right to delete, one ENI is tried at each look", async () => {
  await using lab = await SweepLab.start();
  const code = "UnauthorizedOperation";
  await lab.cloud.ask.fault({ call: DELETE, kind: "error", code, times: 2 });
  for (let i = 0; i < 3; i++) await lab.create(OURS);
  lab.lead();
  await untilPasses(async () =>
    assert.equal(await lab.figure("deleted_enis_total"), "3")
  );
  const ofLooks = (await lab.calls()).join(" ").split(DESCRIBE)
    .map((calls) => calls.split(DELETE).length - 1);
  assert.deepEqual(ofLooks.filter((count) => count > 0), [1, 1, 3]);
  assert.equal(await lab.figure("sweep_errors_total"), "2");
});

Deno.test("while EC2 cannot be asked, a leader asks again", async () => {
  await using lab = await SweepLab.start();
  const code = "UnauthorizedOperation";
  await lab.cloud.ask.fault({ call: DESCRIBE, kind: "error", code, times: 3 });
  await lab.create(OURS);
  lab.lead();
  await untilPasses(async () =>
    assert.equal(await lab.figure("deleted_enis_total"), "1")
  );
  assert.equal(await lab.figure("sweep_errors_total"), "3");
});

Deno.test("the region is the environment's, else the instance's", async () => {
  await using lab = await SweepLab.start();
  lab.lead("eu-test-1");
  await lab.looks(1);
  const asked = async () =>
    (await lab.calls()).some((call) => call.endsWith("/placement/region"));
  assert.equal(await asked(), false);
  lab.lead();
  await untilPasses(async () => assert.ok(await asked()));
  await lab.looks(3);
});

Deno.test("coil-controller's IAM policy allows what the sweep does, and no more", async () => {
  await using lab = await SweepLab.start();
  await lab.create(OURS);
  lab.lead();
  await untilPasses(async () =>
    assert.equal(await lab.figure("deleted_enis_total"), "1")
  );
  const ofEc2 = async () =>
    (await lab.cloud.ask.calls(0)).filter(({ call }) => /^De/.test(call));
  const made = await ofEc2();
  const eni = await lab.create({ ...OURS, [ENI_CLUSTER_TAG]: "other" });
  const form = formOf(DELETE, { NetworkInterfaceId: eni });
  const keys = { credentials: ROLE_KEYS };
  await callEc2(lab.cloud.endpoints.ec2, form, keys);
  const foreign = (await ofEc2()).filter(({ status }) => status === 403);
  assertTight(POLICY, { made, foreign });
});
