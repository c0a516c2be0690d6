import assert from "node:assert/strict";
import { FakeClock, untilStopped } from "../../../lib/async/testing.ts";
import { AwsError, type NetworkInterface } from "../../../lib/aws/mod.ts";
import {
  ENI_CLUSTER_TAG,
  ENI_INSTANCE_TAG,
  ENI_UNMANAGED_TAG,
} from "../../../lib/names/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { SweepMetrics } from "./metrics.ts";
import { VpcSweep } from "./sweep.ts";

const OURS = { [ENI_CLUSTER_TAG]: "prod", [ENI_INSTANCE_TAG]: "i-1" };

function eniOf(
  id: string,
  changes: Partial<NetworkInterface> = {},
): NetworkInterface {
  return {
    networkInterfaceId: id,
    subnetId: "subnet-1",
    vpcId: "vpc-1",
    availabilityZone: "a",
    macAddress: "02:00:00:00:00:01",
    status: "available",
    description: "",
    primaryAddress: undefined,
    secondaryAddresses: [],
    ipv4Prefixes: [],
    ipv6Addresses: [],
    ipv6Prefixes: [],
    groups: [],
    tags: OURS,
    attachment: undefined,
    ...changes,
  };
}

/** A leader, with an EC2 of which the test sets the answers. */
class Site implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly registry = createRegistry();
  readonly deleted: string[] = [];
  enis: readonly NetworkInterface[] = [];
  refusal: Error | undefined;
  /** Whether EC2 answers a delete. */
  answers = true;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor() {
    const sweep = new VpcSweep({
      cluster: "prod",
      afterMs: 300_000,
      metrics: new SweepMetrics(this.registry),
      clock: this.clock,
      open: () =>
        Promise.resolve({
          describeNetworkInterfaces: () => Promise.resolve([...this.enis]),
          deleteNetworkInterface: (id) => {
            this.deleted.push(id);
            if (!this.answers) return new Promise(() => {});
            return this.refusal === undefined
              ? Promise.resolve()
              : Promise.reject(this.refusal);
          },
        }),
    });
    const { signal } = this.#stop;
    this.#running = untilStopped(sweep.run(signal), signal);
  }

  async figures(): Promise<string[]> {
    const lines = (await this.registry.metrics()).split("\n");
    return lines.filter((line) => line.startsWith("coil_controller_vpc_"))
      .map((line) => line.replace("coil_controller_vpc_", ""));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

Deno.test("run() believes no filter: what is not ours, attached or kept stays", async () => {
  await using site = new Site();
  const { [ENI_INSTANCE_TAG]: _, ...notOfCoild } = OURS;
  const attachment = {
    attachmentId: "attach-1",
    instanceId: "i-2",
    deviceIndex: 1,
    networkCardIndex: 0,
    status: "attaching",
    deleteOnTermination: true,
  };
  site.enis = [
    eniOf("other", { tags: { ...OURS, [ENI_CLUSTER_TAG]: "prod2" } }),
    eniOf("operator", { tags: notOfCoild }),
    eniOf("kept", { tags: { ...OURS, [ENI_UNMANAGED_TAG]: "true" } }),
    eniOf("used", { status: "in-use" }),
    eniOf("attached", { attachment }),
    eniOf("left"),
  ];
  await site.clock.advance(420_000);
  assert.deepEqual([...new Set(site.deleted)], ["left"]);
});

Deno.test("run() deletes after five minutes, and no sooner", async () => {
  await using site = new Site();
  site.enis = [eniOf("a")];
  await site.clock.advance(299_999);
  assert.deepEqual(site.deleted, []);
  await site.clock.advance(120_000);
  assert.equal(site.deleted[0], "a");
});

Deno.test("run() has nothing to say of an ENI that its node has deleted, and of those of another leader", async () => {
  await using site = new Site();
  site.refusal = new AwsError({
    call: "DeleteNetworkInterface",
    peer: "EC2",
    service: "ec2",
    code: "InvalidNetworkInterfaceID.NotFound",
    reason: "",
    status: 400,
  });
  site.enis = [eniOf("a")];
  await site.clock.advance(420_000);
  assert.ok(site.deleted.length > 0);
  assert.deepEqual(await site.figures(), [
    'loose_enis{cluster="prod"} 1',
    "deleted_enis_total 0",
    "sweep_errors_total 0",
  ]);
  await site[Symbol.asyncDispose]();
  assert.deepEqual(await site.figures(), [
    "deleted_enis_total 0",
    "sweep_errors_total 0",
  ]);
});

Deno.test("run() ends at its signal although EC2 does not answer", async () => {
  await using site = new Site();
  site.enis = [eniOf("a")];
  site.answers = false;
  await site.clock.advance(420_000);
  assert.deepEqual(site.deleted, ["a"]);
});
