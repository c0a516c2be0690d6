// What people see of a node whose pods have addresses of the VPC.
import assert from "node:assert/strict";
import { conditionOf, type VpcNode } from "../../lib/api/mod.ts";
import { coil } from "../../roles/cli/testing.ts";
import { testedCommands, testedSessions } from "../arch/pages.ts";
import { eventually } from "../lab/mod.ts";
import { usedRights } from "../lab/rights_log.ts";
import { grantedTo } from "../runner/rights.ts";
import { BARE, VpcLab } from "./coild_vpc_lab.ts";
import { COIL_API, columnsOf } from "./crds.ts";
import { patchPodStatus } from "./patch_status.ts";

const ASSIGN = "AssignPrivateIpAddresses";

async function vpcNodeOf({ lab }: VpcLab): Promise<VpcNode> {
  const path = `${COIL_API}/vpcnodes/${lab.node().name}`;
  return await lab.plane.request("GET", path) as VpcNode;
}

/** Waits until a condition of the VPCNode has this status and reason, and such a message. */
async function conditionIs(
  vpc: VpcLab,
  type: string,
  wanted: string,
  message: RegExp = /./,
): Promise<void> {
  let found = "";
  await eventually(`${type}=${wanted} ${message}`, async () => {
    const { status } = await vpcNodeOf(vpc);
    const is = conditionOf(status?.conditions, type);
    found = `${is?.status} ${is?.reason}: ${is?.message}`;
    return found.startsWith(`${wanted}:`) && message.test(is?.message ?? "");
  }).catch((cause) => {
    throw new Error(`${cause.message}: it is ${found}`, { cause });
  });
}

interface Event {
  readonly reason: string;
  readonly message: string;
  readonly count: number;
}

/** Events about an object of this name. */
async function eventsOf({ lab }: VpcLab, name: string): Promise<Event[]> {
  const path = "/api/v1/namespaces/default/events";
  const { items } = await lab.plane.request(
    "GET",
    `${path}?fieldSelector=involvedObject.name=${name}`,
  ) as { items: Event[] };
  return items;
}

/** What a program on the node gets by a command of the document. */
async function asked({ lab }: VpcLab, command = ""): Promise<unknown> {
  return JSON.parse(await lab.node().run("sh", "-c", command));
}

Deno.test("coild --addresses=vpc shows what the node has", async (t) => {
  await using vpc = await VpcLab.start("coildvpcshow", {}, {
    audit: "metadata",
  });
  const { lab } = vpc;
  const { name } = lab.node();
  await using coild = await vpc.start(BARE);
  await t.step("a VPCNode, owned by its Node", async () => {
    await vpc.add(coild, await lab.createPod("pod0"));
    await eventually("the ENI", async () => {
      const { status } = await vpcNodeOf(vpc);
      return status?.addresses?.used === 1 && status.addresses.free === 1;
    });
    const { metadata, status } = await vpcNodeOf(vpc);
    const [owner] = metadata.ownerReferences ?? [];
    assert.deepEqual([owner?.kind, owner?.name], ["Node", name]);
    const { enis: [eni] = [], ...rest } = status ?? {};
    assert.equal(eni?.device, 0);
    assert.match(eni.blocks.join(), /^10\.0\.1\.\d+\/32,10\.0\.1\.\d+\/32$/);
    assert.equal(rest.mode, "address");
    assert.deepEqual(
      rest.conditions?.map(({ type, status }) => `${type}=${status}`),
      [
        "Ready=True",
        "SubnetExhausted=False",
        "Throttled=False",
        "MissingPermissions=False",
      ],
    );
  });
  await t.step("in kubectl's columns", async () => {
    assert.deepEqual(await columnsOf(lab.plane, "vnode"), [
      ...["NAME", "TYPE", "ENIS", "USED", "COOLING", "FREE", "READY"],
      ...["REASON", "INSTANCE", "MODE", "MAX ENIS", "CAPACITY", "AGE"],
    ]);
    const line = await lab.plane.kubectl("get", "vpcnodes", "--no-headers");
    assert.match(
      line,
      new RegExp(
        `^${name} +t3\\.small +1 +1 +0 +1 +True +AddressesAvailable +\\S+\n$`,
      ),
    );
  });

  await t.step("to programs on the node", async () => {
    const blocks = await testedCommands("docs/vpc.md", import.meta.url);
    const [ofAddresses, ofEnis] = blocks.flat();
    const [ip = ""] = (await vpcNodeOf(vpc)).status?.enis?.[0]?.blocks ?? [];
    const own = ip.replace("/32", "");
    const pod = { namespace: "default", name: "pod0" };
    await patchPodStatus(lab.plane, pod, { ips: [own] });
    await eventually("the pod's name", async () => {
      const { ips, ...counts } = await asked(vpc, ofAddresses) as {
        ips: { pod: string; ip: string }[];
      };
      assert.deepEqual(counts, {
        allocated: 1,
        available: 1,
        cooling: 0,
        total: 2,
      });
      return ips.length === 1 && ips[0]?.pod === "pod0" && ips[0].ip === own;
    });
    const enis = JSON.stringify(await asked(vpc, ofEnis));
    assert.match(enis, /^{"0":{"TotalIPs":2,"AssignedIPs":1,"ENIs":{"eni-/);
    assert.ok(enis.includes(`"k8sPodName":"pod0"`));
    const out = await lab.node().run("ss", "-Htln", "sport", "=", "61679");
    assert.match(out, /127\.0\.0\.1:61679/);
    assert.equal(out.trim().split("\n").length, 1);
  });

  await t.step("to coil ipam show", async () => {
    const show = async (...args: string[]) => {
      const kubeconfig = `--kubeconfig=${lab.plane.kubeconfig}`;
      const { code, out, err } = await coil([
        ...["ipam", "show", ...args, "--no-headers", kubeconfig],
      ]);
      assert.equal(code, 0, err);
      return out.replaceAll(/ +/g, " ");
    };
    assert.match(await show("pools"), /^vpc Available 1 9 7 1 9 7 -\n$/);
    const blocks = await show("blocks", "--pool=vpc", `--node=${name}`);
    assert.match(
      blocks,
      new RegExp(
        `^eni-\\w+/\\S+/32 vpc ${name} \\S+/32 - 1 1 active -\neni-\\S+ vpc ${name} \\S+ - 0 1 active -\n$`,
      ),
    );
    assert.match(
      await show("addresses"),
      new RegExp(`^10\\S+ - default/pod0 ${name} eni-\\S+ ok \\S+\n$`),
    );
    const [own = ""] = (await show("addresses")).split(" ");
    const why = await coil([
      ...["explain", own, `--kubeconfig=${lab.plane.kubeconfig}`],
    ]);
    assert.match(
      why.out,
      new RegExp(
        `is in use by Pod default/pod0\n.*\n  eni-\\w+/${own}/32 of the VPC, on Node ${name}\n`,
      ),
      why.err,
    );
    const map = await coil([
      ...["ipam", "map", "vpc", `--node=${name}`],
      `--kubeconfig=${lab.plane.kubeconfig}`,
    ]);
    const [session] = await testedSessions(
      "docs/roles/coil.md",
      import.meta.url,
    );
    assert.equal(map.out.replace(name, "node1"), session?.output, map.err);
    const none = await coil([
      ...["ipam", "show", "blocks", "--pool=vcp"],
      `--kubeconfig=${lab.plane.kubeconfig}`,
    ]);
    assert.match(none.err, /"vcp": it does not exist \(existing: vpc\)/);
  });

  await t.step("in its metrics", async () => {
    const samples = {
      "coil_vpc_enis": 1,
      'coil_vpc_blocks{usable="true"}': 2,
      'coil_vpc_blocks{usable="false"}': 0,
      'coil_vpc_addresses{state="used"}': 1,
      'coil_vpc_addresses{state="cooling"}': 0,
      'coil_vpc_addresses{state="free"}': 1,
      "coil_vpc_waiting": 0,
      'coil_vpc_plan_actions_total{action="create"}': 0,
    };
    for (const [sample, value] of Object.entries(samples)) {
      assert.equal(await coild.metric(sample), value, sample);
    }
    const assigned = await vpc.site.changes();
    const call = `call="${ASSIGN}"`;
    for (
      const sample of [
        'coil_vpc_plan_actions_total{action="assign"}',
        `coil_vpc_api_requests_total{${call},result="success"}`,
        `coil_vpc_api_seconds_count{${call}}`,
      ]
    ) assert.equal(await coild.metric(sample), assigned[ASSIGN], sample);
  });

  await t.step("again when the VPCNode was deleted", async () => {
    const { metadata: { uid } } = await vpcNodeOf(vpc);
    await lab.plane.kubectl("delete", "vpcnode", name);
    const names = Array.from({ length: 3 }, (_, n) => `more${n}`);
    for (const name of names) await vpc.add(coild, await lab.createPod(name));
    await eventually("another object", async () => {
      const { metadata, status } = await vpcNodeOf(vpc);
      return metadata.uid !== uid && status?.eniCount === 2;
    });
  });

  await t.step("with the rights of deploy/vpc, and no others", async () => {
    const account = "system:serviceaccount:kube-system:coild";
    const granted = await grantedTo("kube-system:coild", "vpc");
    // The log follows the answers.
    await eventually("all rights to be used", async () => {
      const requests = await lab.plane.auditRequests();
      const used = usedRights(requests).filter(({ user, right }) =>
        user === account && right.includes("vpcnodes")
      );
      assert.ok(used.every(({ isGranted }) => isGranted));
      assert.deepEqual(
        used.map(({ right }) => right).sort(),
        [...granted].filter((right) => right.includes("vpcnodes")).sort(),
      );
      return true;
    });
  });
});

Deno.test("coild --addresses=vpc says why pods get no addresses", async (t) => {
  await using vpc = await VpcLab.start("coildvpcwhy");
  const { cloud, lab } = vpc;
  await using coild = await vpc.start([
    ...BARE,
    "--block-request-timeout=2s",
    "--introspection-addr=",
  ]);
  let pods = 0;
  /** Adds a pod that must get no address, until it has been refused twice with an Event like this, which is one. */
  const refused = async (expected: RegExp): Promise<void> => {
    const name = `refused${pods++}`;
    const pod = await lab.createPod(name);
    const codes = new Set<number>();
    await eventually(`the Event ${expected}, counted twice`, async () => {
      const { code } = await vpc.plugin(coild, "ADD", pod);
      codes.add(code);
      const events = await eventsOf(vpc, name);
      // Other ones: before EC2 has refused, and when it has refused further calls.
      const texts = events.map(({ reason, message }) =>
        `${reason}: ${message}`
      );
      assert.equal(new Set(texts).size, texts.length);
      return events.some(({ count }, i) =>
        count >= 2 && expected.test(texts[i] ?? "")
      );
    });
    assert.ok(!codes.has(0));
    await lab.deletePod(pod);
  };
  /** Lets a call fail until the end of the step, with all addresses in use. */
  const failing = async (code: string) => {
    for (const call of [ASSIGN, "CreateNetworkInterface"]) {
      await cloud.ask.fault({ call, kind: "error", code });
    }
    await eventually("no free address", async () => {
      const pod = await lab.createPod(`fill${pods++}`);
      const { code } = await vpc.plugin(coild, "ADD", pod);
      if (code === 0) return false;
      // As long as it is there, an address is kept for it.
      await lab.deletePod(pod);
      // Nor is one on its way that EC2 granted before.
      const granted = await vpc.site.layout(lab.node());
      const used = await coild.metric('coil_vpc_addresses{state="used"}');
      return granted.reduce((sum, count) => sum + count, 0) === used;
    });
    return {
      [Symbol.asyncDispose]: async () => void await cloud.ask.clearFaults(),
    };
  };
  await vpc.add(coild, await lab.createPod("first"));

  await t.step("a right that is missing", async () => {
    await using _fault = await failing("UnauthorizedOperation");
    const right = new RegExp(`allow .*ec2:${ASSIGN}`);
    await refused(right);
    await conditionIs(vpc, "MissingPermissions", "True Unauthorized", right);
    await conditionIs(vpc, "Ready", "False CallsFail");
    const event = await eventually("the Node's Event", async () => {
      const events = await eventsOf(vpc, lab.node().name);
      return events.find(({ reason, message }) =>
        reason === "MissingPermissions" && message.includes(ASSIGN)
      );
    });
    assert.equal(event.count, 1);
    assert.match(event.message, right);
  });
  await conditionIs(vpc, "Ready", "True AddressesAvailable");

  await t.step("an account that is throttled", async () => {
    await using _fault = await failing("RequestLimitExceeded");
    await refused(/: EC2 throttles this account \(\w+/);
    await conditionIs(
      vpc,
      "Throttled",
      "True RequestLimitExceeded",
      /throttles this account: \w+/,
    );
  });
  await eventually("an address again", async () => {
    const pod = await lab.createPod(`again${pods++}`);
    const { code } = await vpc.plugin(coild, "ADD", pod);
    if (code !== 0) await lab.deletePod(pod);
    return code === 0;
  });

  await t.step("an empty subnet", async () => {
    await using _fault = await failing("InsufficientFreeAddressesInSubnet");
    await refused(
      /^AddressBlockTimeout: .*: subnet subnet-a of the node's ENIs has no free address left/,
    );
    await conditionIs(vpc, "SubnetExhausted", "True NoAddress");
    await conditionIs(vpc, "Ready", "False SubnetExhausted");
  });

  await t.step(
    "nothing at the address for programs that is empty",
    async () => {
      const out = await lab.node().run("ss", "-Htln", "sport", "=", "61679");
      assert.equal(out, "");
    },
  );
});
